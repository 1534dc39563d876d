package containers

import (
	"bytes"
	"context"
	"io"
	"math/rand"
	"sync/atomic"
	"testing"
	"time"
)

// readers count what is read and how many reads are under way at most.
type readers struct {
	data      []byte
	now, most atomic.Int32
}

func (r *readers) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	now := r.now.Add(1)
	defer r.now.Add(-1)
	for most := r.most.Load(); now > most && !r.most.CompareAndSwap(most, now); most = r.most.Load() {
	}
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	if off >= int64(len(r.data)) {
		return 0, io.EOF
	}
	n := copy(p, r.data[off:])
	if n > 300<<10 && off%3 == 0 {
		n = 300 << 10 // a short read
	}
	return n, nil
}

// What is read ahead is what is there, however it is read.
func TestAhead(t *testing.T) {
	rnd := rand.New(rand.NewSource(1))
	src := &readers{data: make([]byte, 5<<20+12345)}
	rnd.Read(src.data)
	for _, size := range []int{100_000, 512 << 10, 3 << 20} {
		a := &ahead{read: src.ReadAt}
		var got []byte
		buf := make([]byte, size)
		for off := int64(0); ; {
			if rnd.Intn(8) == 0 { // somebody else looks elsewhere
				at := rnd.Int63n(int64(len(src.data)))
				n, err := a.ReadAt(t.Context(), make([]byte, 70<<10), at)
				if err != nil || n == 0 {
					t.Fatal(n, err)
				}
			}
			n, err := a.ReadAt(t.Context(), buf, off)
			got = append(got, buf[:n]...)
			off += int64(n)
			if err == io.EOF || err == nil && n == 0 {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		a.close()
		if !bytes.Equal(got, src.data) {
			t.Errorf("in pieces of %d bytes: %d bytes came, which are not those of the file", size, len(got))
		}
	}
	if src.now.Load() != 0 {
		t.Error("something still reads")
	}
	if most := src.most.Load(); most > aheadParts+1 {
		t.Errorf("%d reads at once", most)
	}
}

// Small reads, and those of somebody who jumps about, read nothing ahead.
func TestAheadOnlyInTurn(t *testing.T) {
	var reads atomic.Int32
	a := &ahead{read: func(_ context.Context, p []byte, _ int64) (int, error) {
		reads.Add(1)
		return len(p), nil
	}}
	buf := make([]byte, 1<<20)
	for i := range int64(10) {
		a.ReadAt(t.Context(), buf[:1000], i*1000)
		a.ReadAt(t.Context(), buf, (i*7%10)<<30)
	}
	a.close()
	if n := reads.Load(); n != 20 {
		t.Errorf("%d reads for 20", n)
	}
}

// Who closes while something is read ahead waits for the end of that, and it
// is cancelled.
func TestAheadEnds(t *testing.T) {
	blocked := make(chan struct{}, 100)
	a := &ahead{read: func(ctx context.Context, p []byte, off int64) (int, error) {
		if off < 1<<20 {
			return len(p), nil
		}
		blocked <- struct{}{}
		<-ctx.Done()
		return 0, context.Cause(ctx)
	}}
	buf := make([]byte, 512<<10)
	a.ReadAt(t.Context(), buf, 0)
	go a.ReadAt(t.Context(), buf, 512<<10)
	<-blocked
	closed := make(chan struct{})
	go func() {
		a.close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(90 * time.Second):
		t.Fatal("close does not return")
	}
}
