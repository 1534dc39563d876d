//go:build unix

package fake_test

import (
	"testing"

	"agent9/conformance"
	"agent9/fsys"
	"agent9/namespace/budget"
	"agent9/providers/sandboxes"
	"agent9/providers/sandboxes/fake"
)

// start returns a sandbox whose box is a process.
func start(b *testing.B) *sandboxes.Box {
	p, err := fake.New(fake.Options{Helper: conformance.Helper(b)})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { p.Close() })
	box, err := sandboxes.NewRunner("fake", p).Create(b.Context(), new(budget.Hold), sandboxes.Spec{}, nil)
	if err != nil {
		b.Fatal(err)
	}
	return box
}

// BenchmarkExec is a command that does nothing, from the call to its exit.
func BenchmarkExec(b *testing.B) {
	box := start(b)
	for b.Loop() {
		if _, err := box.Exec(b.Context(), sandboxes.Command{Argv: []string{"true"}}, sandboxes.Streams{}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRead is a file of 64 MB, read a megabyte at a time.
func BenchmarkRead(b *testing.B) {
	box := start(b)
	const size = 64 << 20
	if _, err := box.Exec(b.Context(), sandboxes.Command{Argv: []string{"sh", "-c", "head -c 67108864 /dev/zero >large"}}, sandboxes.Streams{}); err != nil {
		b.Fatal(err)
	}
	root, err := box.Files(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	buf := make([]byte, 1<<20)
	b.SetBytes(size)
	for b.Loop() {
		h, err := fsys.OpenPath(b.Context(), root, "workspace/large", fsys.Read)
		if err != nil {
			b.Fatal(err)
		}
		for off := int64(0); off < size; {
			n, err := fsys.ReadAt(b.Context(), h, buf, off)
			if err != nil {
				b.Fatal(err)
			}
			off += int64(n)
		}
		h.Close()
	}
}
