//go:build unix

package docker_test

import (
	"fmt"
	"testing"

	"agent9/conformance"
	"agent9/providers/sandboxes"
)

func TestDriver(t *testing.T) {
	t.Parallel()
	b := on(t, shared.Get(t))
	conformance.TestContainers(t, conformance.Containers{
		Provider: b,
		Missing:  "agent9-test-missing:latest",
		Again:    func(*testing.T) sandboxes.Provider { return b.another() },
		Crash: func(t *testing.T, id string) {
			if err := b.engine.API.ContainerKill(t.Context(), id, "KILL"); err != nil {
				t.Fatal(err)
			}
		},
		SkillsFixed: true,
		Left: func() error {
			if _, err := b.List(t.Context()); err != nil { // tidies
				return err
			}
			if left := b.left(false); len(left) > 0 {
				return fmt.Errorf("%q", left)
			}
			return nil
		},
	})
}
