package main

import "testing"

func TestMain(m *testing.M) {
	Main(m, func() {
		freeOnSignal()
		main()
	})
}
