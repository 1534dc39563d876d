//go:build unix

package fake_test

import (
	"testing"

	"agent9/conformance"
	"agent9/providers/sandboxes"
	"agent9/providers/sandboxes/fake"
)

func TestFake(t *testing.T) {
	for name, opts := range map[string]fake.Options{
		"in this process": {},
		"as a process":    {Helper: conformance.Helper(t)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // most of it is waiting
			p, err := fake.New(opts)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { p.Close() })
			conformance.TestContainers(t, conformance.Containers{
				Provider: p,
				Missing:  "nosuch",
				Again:    func(*testing.T) sandboxes.Provider { return fake.Reopen(p.Dir(), opts) },
				Crash:    func(*testing.T, string) { p.Crash() },
				Left:     p.Empty,
			})
		})
	}
}
