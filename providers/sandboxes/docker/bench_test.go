//go:build unix

package docker_test

import (
	"os/exec"
	"testing"

	"agent9/providers/sandboxes"
)

// The figures of the engine's own command line are for the same image on the
// same engine, with no network either.
func cli(b *testing.B, e string, args ...string) {
	b.Helper()
	if out, err := exec.Command("docker", append([]string{"-H", e}, args...)...).CombinedOutput(); err != nil {
		b.Fatalf("docker %q: %v\n%s", args, err, out)
	}
}

func needCLI(b *testing.B) {
	b.Helper()
	if _, err := exec.LookPath("docker"); err != nil {
		b.Skip(err)
	}
}

func BenchmarkFirstCommand(b *testing.B) {
	y := on(b, shared.Get(b))
	y.create(sandboxes.Spec{}).Remove(b.Context()) // prepares the image
	b.Run("agent9", func(b *testing.B) {
		for b.Loop() {
			box := y.box(sandboxes.Spec{})
			y.sh(box, "true")
			b.StopTimer()
			box.Remove(b.Context())
			b.StartTimer()
		}
	})
	b.Run("docker run", func(b *testing.B) {
		needCLI(b)
		for b.Loop() {
			cli(b, y.engine.Host, "run", "--network", "none", y.config.DefaultImage, "true")
		}
	})
}

func BenchmarkCommand(b *testing.B) {
	y := on(b, shared.Get(b))
	box := y.box(sandboxes.Spec{})
	b.Run("agent9", func(b *testing.B) {
		for b.Loop() {
			y.sh(box, "true")
		}
	})
	b.Run("docker exec", func(b *testing.B) {
		needCLI(b)
		for b.Loop() {
			cli(b, y.engine.Host, "exec", box.ID(), "/bin/sh", "-c", "true")
		}
	})
}
