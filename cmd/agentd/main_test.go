package main

import (
	"agent9/conformance/daemon"
	"testing"
)

func TestMain(m *testing.M) {
	daemon.Main(m, func() {
		freeOnSignal()
		main()
	})
}
