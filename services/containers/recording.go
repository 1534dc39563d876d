package containers

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"sync"

	"agent9/fsys"
	"agent9/store"
)

// What a run of bytes in a recording is.
const (
	said   = 0 // what we say: in the whole only
	stdout = 1
	stderr = 2
)

// recording is what commands write, up to a limit. The bytes are stored once,
// in the order in which they came, with an index of whose they are; the
// streams of one alone are made of these.
type recording struct {
	st    store.Updater
	limit int64
	whole *store.Log
	index *store.Log // entries

	writing sync.Mutex // held by who adds

	mu    sync.Mutex
	last  entry
	size  int64 // of whole, as far as the index knows of it
	fresh int64 // bytes stored since the last flush
	lost  [3]int64
	alone [3]*fsys.Tape // of stdout, stderr
}

// entry begins a run of bytes of fd, at at of the whole, where so many bytes
// of stdout and stderr have been.
type entry struct {
	fd       int
	at       int64
	out, err int64
}

const entrySize = 24

func (e entry) bytes() []byte {
	b := make([]byte, 0, entrySize)
	b = binary.BigEndian.AppendUint64(b, uint64(e.fd)<<56|uint64(e.at))
	b = binary.BigEndian.AppendUint64(b, uint64(e.out))
	return binary.BigEndian.AppendUint64(b, uint64(e.err))
}

func parseEntry(b []byte) entry {
	first := binary.BigEndian.Uint64(b)
	return entry{
		fd: int(first >> 56), at: int64(first & (1<<56 - 1)),
		out: int64(binary.BigEndian.Uint64(b[8:])), err: int64(binary.BigEndian.Uint64(b[16:])),
	}
}

// of is how many bytes of fd have been before e.
func (e entry) of(fd int) int64 {
	if fd == stdout {
		return e.out
	}
	return e.err
}

// next is the entry of a run of fd that begins at at.
func (e entry) next(fd int, at int64) entry {
	n := entry{fd: fd, at: at, out: e.out, err: e.err}
	switch e.fd {
	case stdout:
		n.out += at - e.at
	case stderr:
		n.err += at - e.at
	}
	return n
}

// openRecording returns the recording that st holds, which may be empty, for up
// to limit bytes more.
func openRecording(ctx context.Context, st store.Updater, limit int64) (*recording, error) {
	r := &recording{st: st, limit: limit}
	var err error
	if r.whole, err = store.OpenLog(ctx, store.Sub(st, "b/")); err != nil {
		return nil, err
	}
	if r.index, err = store.OpenLog(ctx, store.Sub(st, "i/")); err != nil {
		return nil, err
	}
	r.size = r.whole.Size()
	if n := r.index.Size() / entrySize; n > 0 {
		if r.last, err = r.entry(n - 1); err != nil {
			return nil, err
		}
	}
	r.alone[stdout], r.alone[stderr] = fsys.NewTape(&view{r, stdout}), fsys.NewTape(&view{r, stderr})
	return r, nil
}

func (r *recording) entry(n int64) (entry, error) {
	var b [entrySize]byte
	for got := 0; got < entrySize; {
		m, err := r.index.ReadAt(b[got:], n*entrySize+int64(got))
		if err != nil {
			return entry{}, err
		}
		got += m
	}
	return parseEntry(b[:]), nil
}

// flushEvery is how many bytes are in memory only, at the most.
const flushEvery = 32 << 10

// add records p as written to fd. What is above the limit is counted as lost.
func (r *recording) add(fd int, p []byte) error {
	r.writing.Lock()
	defer r.writing.Unlock()
	if fd != said {
		r.mu.Lock()
		room := max(r.limit-r.size, 0)
		over := int64(len(p)) - room
		if over > 0 {
			r.lost[fd] += over
			p = p[:room]
		}
		r.mu.Unlock()
	}
	return r.put(fd, p)
}

// put stores p, with writing held.
func (r *recording) put(fd int, p []byte) error {
	if len(p) == 0 {
		return nil
	}
	next, stored := r.last, int64(len(p))
	if r.size == 0 || r.last.fd != fd {
		next = r.last.next(fd, r.size)
		stored += entrySize
		if err := r.index.Buffer(next.bytes()); err != nil {
			return err
		}
	}
	if err := r.whole.Buffer(p); err != nil {
		return err
	}
	r.mu.Lock()
	r.last = next
	r.size += int64(len(p))
	r.fresh += stored
	flush := r.fresh >= flushEvery
	r.mu.Unlock()
	if fd != said {
		r.alone[fd].Grown()
	}
	if flush {
		return r.flush(context.Background())
	}
	return nil
}

// say adds a line of ours to the whole.
func (r *recording) say(line string) error { return r.add(said, []byte(line+"\n")) }

// confess says in each stream how much of it is not there, if so.
func (r *recording) confess() error {
	r.writing.Lock()
	defer r.writing.Unlock()
	for fd := stdout; fd <= stderr; fd++ {
		r.mu.Lock()
		n, name := r.lost[fd], [...]string{"", "stdout", "stderr"}[fd]
		r.lost[fd] = 0
		r.mu.Unlock()
		if n == 0 {
			continue
		}
		if err := r.put(fd, fmt.Appendf(nil, "\n[lost %d bytes of %s: the limit of the output is %d bytes]\n", n, name, r.limit)); err != nil {
			return err
		}
	}
	return nil
}

// flush makes durable what was added.
func (r *recording) flush(ctx context.Context) error {
	return r.st.Update(context.WithoutCancel(ctx), r.keep)
}

// keep makes durable what was added, in the transaction that tx belongs to.
func (r *recording) keep(tx store.Store) error {
	r.mu.Lock()
	r.fresh = 0
	r.mu.Unlock()
	if err := r.whole.Append(tx, nil); err != nil {
		return err
	}
	return r.index.Append(tx, nil)
}

// drop deletes all of it in the transaction that tx belongs to.
func (r *recording) drop(tx store.Store) error {
	if err := r.whole.Drop(tx); err != nil {
		return err
	}
	return r.index.Drop(tx)
}

// end says that nothing more will come.
func (r *recording) end() {
	for _, t := range []*fsys.Tape{r.whole.Tape(), r.alone[stdout], r.alone[stderr]} {
		t.End()
	}
}

// sizes are how many bytes there are of each stream, and how many were lost.
func (r *recording) sizes() (out, err, lost int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.last.next(said, r.size)
	return now.out, now.err, r.lost[stdout] + r.lost[stderr]
}

// stored is how many bytes are kept.
func (r *recording) stored() int64 { return r.whole.Size() + r.index.Size() }

// view is the bytes of fd alone.
type view struct {
	r  *recording
	fd int
}

func (v *view) Size() int64 {
	out, err, _ := v.r.sizes()
	if v.fd == stdout {
		return out
	}
	return err
}

// ReadAt finds the run that off is in, and reads as far as that goes.
func (v *view) ReadAt(p []byte, off int64) (int, error) {
	v.r.mu.Lock()
	last, end := v.r.last, v.r.size
	v.r.mu.Unlock()
	if off >= last.next(said, end).of(v.fd) {
		return 0, io.EOF
	}
	run := last
	if last.of(v.fd) > off || last.fd != v.fd {
		var err error
		if run, end, err = v.find(off); err != nil {
			return 0, err
		}
	}
	from := run.at + off - run.of(v.fd)
	return v.r.whole.ReadAt(p[:min(int64(len(p)), end-from)], from)
}

// find returns the run that off is in, which is not the last one, and where
// that ends.
func (v *view) find(off int64) (run entry, end int64, err error) {
	low, high := int64(0), v.r.index.Size()/entrySize // low begins before or at off
	for high-low > 1 {
		mid := low + (high-low)/2
		e, err := v.r.entry(mid)
		if err != nil {
			return entry{}, 0, err
		}
		if e.of(v.fd) <= off {
			low = mid
		} else {
			high = mid
		}
	}
	if run, err = v.r.entry(low); err != nil {
		return entry{}, 0, err
	}
	next, err := v.r.entry(low + 1)
	return run, next.at, err
}
