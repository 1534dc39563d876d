package files_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"agent9/fsys"
	"agent9/store"
	"agent9/store/bolt"
	"agent9/store/files"
)

// benchTree is a tree on a disk with a small file, a large one, and a directory
// of a thousand.
func benchTree(b *testing.B) fsys.Node {
	db, err := bolt.Open(filepath.Join(b.TempDir(), "db"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { db.Close() })
	tree, err := files.New(b.Context(), store.Sub(db, "t/"), files.Options{})
	if err != nil {
		b.Fatal(err)
	}
	root := tree.Root()
	for name, size := range map[string]int{"small": 64, "large": 1 << 20} {
		makeFile(b, root, name, size)
	}
	many, err := fsys.Mkdir(b.Context(), root, "many", 0o755)
	if err != nil {
		b.Fatal(err)
	}
	for i := range 1000 {
		makeFile(b, many, fmt.Sprintf("file-%04d", i), 64)
	}
	return root
}

func makeFile(b *testing.B, dir fsys.Node, name string, size int) {
	b.Helper()
	_, h, err := fsys.Create(b.Context(), dir, name, 0o644, fsys.Write)
	if err == nil {
		_, err = fsys.WriteAt(b.Context(), h, make([]byte, size), 0)
	}
	if err == nil {
		err = fsys.Finish(b.Context(), h)
	}
	if err != nil {
		b.Fatal(err)
	}
}

func BenchmarkTree(b *testing.B) {
	ctx := context.Background()
	root := benchTree(b)
	small, _ := fsys.Walk(ctx, root, "small")
	large, _ := fsys.Walk(ctx, root, "large")
	many, _ := fsys.Walk(ctx, root, "many")
	readSmall, _ := small.Open(ctx, fsys.Read)
	readLarge, _ := large.Open(ctx, fsys.Read)
	write, err := large.Open(ctx, fsys.Write)
	if err != nil {
		b.Fatal(err)
	}
	data := make([]byte, 1<<20)
	for _, c := range []struct {
		name string
		do   func() error
	}{
		{"stat", func() error { _, err := small.Stat(ctx); return err }},
		{"walk", func() error { _, err := fsys.Walk(ctx, root, "small"); return err }},
		{"open", func() error {
			h, err := small.Open(ctx, fsys.Read)
			if err == nil {
				err = h.Close()
			}
			return err
		}},
		{"read64", func() error { _, err := fsys.ReadAt(ctx, readSmall, data[:64], 0); return err }},
		{"list1000", func() error {
			list, err := fsys.List(ctx, many)
			for _, e := range list {
				if _, err := e.Stat(ctx); err != nil {
					return err
				}
			}
			return err
		}},
		{"read1M", func() error { _, err := fsys.ReadAt(ctx, readLarge, data, 0); return err }},
		{"write1M", func() error { _, err := fsys.WriteAt(ctx, write, data, 0); return err }},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := c.do(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
