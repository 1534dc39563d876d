//go:build linux && !386 && !arm && !mips && !mipsle

package fuse_test

import (
	"bytes"
	"context"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"agent9/fsys"
	"agent9/fsys/export/fuse"
)

// pattern is a lot of bytes that cost nothing.
type pattern int64

var block = bytes.Repeat([]byte("0123456789abcdef"), 1<<16)

func (p pattern) Size() int64 { return int64(p) }

func (p pattern) ReadAt(b []byte, off int64) (int, error) {
	n := 0
	for n < len(b) && off+int64(n) < int64(p) {
		n += copy(b[n:min(int64(len(b)), int64(p)-off)], block[(off+int64(n))%int64(len(block)):])
	}
	return n, nil
}

func BenchmarkRead(b *testing.B) {
	tape := fsys.NewTape(pattern(1 << 30))
	tape.End()
	dir := b.TempDir()
	m, err := fuse.Mount(context.Background(), fsys.NewTable(entry("big", tape)), dir, fuse.Options{})
	if err != nil {
		b.Skip(err)
	}
	defer m.Unmount()
	for _, script := range []string{"cat big", "dd if=big bs=1M status=none", "dd if=big bs=4k count=20000 status=none"} {
		b.Run(script, func(b *testing.B) {
			for b.Loop() {
				out, err := exec.Command("bash", "-c", `cd "$0"; `+script+` | wc -c`, dir).CombinedOutput()
				if err != nil {
					b.Fatal(string(out), err)
				}
				n, _ := strconv.Atoi(strings.TrimSpace(string(out)))
				b.SetBytes(int64(n))
			}
		})
	}
}
