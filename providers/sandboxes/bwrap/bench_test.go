//go:build linux

package bwrap_test

import (
	"testing"

	"agent9/providers/sandboxes"
	"agent9/providers/sandboxes/bwrap"
	"agent9/providers/sandboxes/folder/foldertest"
)

// BenchmarkSandbox is a sandbox's making, start, first command and end, and
// BenchmarkCommand a command more.
func BenchmarkSandbox(b *testing.B) {
	p, spec := benched(b)
	for b.Loop() {
		sandbox, err := p.Create(b.Context(), spec, func(string) {})
		if err != nil {
			b.Fatal(err)
		}
		box := opened(b, p, sandbox.ID())
		first(b, box)
		if err := box.Remove(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCommand(b *testing.B) {
	p, spec := benched(b)
	sandbox, err := p.Create(b.Context(), spec, func(string) {})
	if err != nil {
		b.Fatal(err)
	}
	box := opened(b, p, sandbox.ID())
	defer box.Remove(b.Context())
	for b.Loop() {
		first(b, box)
	}
}

func benched(b *testing.B) (*bwrap.Provider, sandboxes.Spec) {
	p, err := bwrap.New(bwrap.Config{Dir: b.TempDir(), Helper: foldertest.Helper()})
	if err == nil {
		_, err = p.Info(b.Context())
	}
	if err != nil {
		b.Skip(err)
	}
	return p, sandboxes.Spec{Limits: sandboxes.Limits{Memory: 1 << 30, Disk: 512 << 20, PIDs: 256, CPUs: 1000}}
}

func opened(b *testing.B, p *bwrap.Provider, id string) *sandboxes.Box {
	box, err := sandboxes.NewRunner("test", p).Open(b.Context(), id, func(string) bool { return true })
	if err == nil {
		err = box.Start(b.Context())
	}
	if err != nil {
		b.Fatal(err)
	}
	return box
}

func first(b *testing.B, box *sandboxes.Box) {
	exit, err := box.Exec(b.Context(), sandboxes.Command{Argv: []string{"true"}}, sandboxes.Streams{})
	if err != nil || exit.Code != 0 {
		b.Fatal(exit, err)
	}
}
