// Package disk holds file systems to what programs expect of a disk.
package disk

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
)

// FSX reads, writes, truncates and opens the file at path anew, steps times at
// random places below most bytes, the same ones each time, and compares what is
// there with memory. It returns the first difference.
func FSX(path string, steps, most int) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	x := &exerciser{path: path, most: most, file: f, random: rand.New(rand.NewPCG(1, 2))}
	defer func() { x.file.Close() }()
	for step := range steps {
		if err := x.step(); err != nil {
			return fmt.Errorf("step %d: %w", step, err)
		}
	}
	got, err := os.ReadFile(path)
	if err == nil && !bytes.Equal(got, x.want) {
		err = fmt.Errorf("in the end the file has %d bytes that are not the %d that were written", len(got), len(x.want))
	}
	return err
}

type exerciser struct {
	path   string
	most   int
	file   *os.File
	random *rand.Rand
	want   []byte
}

// part is how much is read or written at once, at most.
const part = 20_000

func (x *exerciser) step() error {
	off, n := x.random.IntN(x.most), x.random.IntN(part)
	var err error
	switch x.random.IntN(8) {
	case 0, 1, 2:
		err = x.write(off, n)
	case 3:
		x.want = append(x.want, make([]byte, max(0, off-len(x.want)))...)[:off]
		err = x.file.Truncate(int64(off))
	case 4:
		if err = x.file.Close(); err == nil {
			x.file, err = os.OpenFile(x.path, os.O_RDWR, 0)
		}
	case 5:
		err = x.file.Sync()
	default:
		err = x.read(off, n)
	}
	if err != nil {
		return err
	}
	info, err := x.file.Stat()
	if err == nil && info.Size() != int64(len(x.want)) {
		err = fmt.Errorf("the size is %d, want %d", info.Size(), len(x.want))
	}
	return err
}

func (x *exerciser) write(off, n int) error {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(x.random.IntN(256))
	}
	if n > 0 {
		x.want = append(x.want, make([]byte, max(0, off+n-len(x.want)))...)
		copy(x.want[off:], p)
	}
	if _, err := x.file.WriteAt(p, int64(off)); err != nil {
		return fmt.Errorf("writing %d at %d: %w", n, off, err)
	}
	return nil
}

func (x *exerciser) read(off, n int) error {
	p := make([]byte, n)
	got, _ := x.file.ReadAt(p, int64(off))
	want := x.want[min(off, len(x.want)):min(off+n, len(x.want))]
	if !bytes.Equal(p[:got], want) {
		return fmt.Errorf("a read of %d at %d of %d is not what was written (%d bytes, want %d)", n, off, len(x.want), got, len(want))
	}
	return nil
}
