package ninep

import (
	"context"
	"encoding/binary"
	"io"
	"math/bits"
	"sync"
	"time"

	"agent9/fsys"
	"agent9/fsys/share"
)

// A frame is memory for one message, from a pool.
type frame struct {
	b     []byte
	from  *share.Part // if not nil, gets bytes back when the frame is freed
	bytes int64
	small bool // a reply without data
}

// Frames are kept by powers of two from 512 bytes to the largest msize.
const (
	minFrameBits = 9
	maxFrameBits = 23
)

var framePools [maxFrameBits - minFrameBits + 1]sync.Pool

func frameClass(n int) int {
	if n <= 1<<minFrameBits {
		return 0
	}
	return bits.Len(uint(n-1)) - minFrameBits
}

// newFrame returns a frame of length n. What is in it is left over from
// another use.
func newFrame(n int) *frame {
	class := frameClass(n)
	f, ok := framePools[class].Get().(*frame)
	if !ok {
		f = &frame{b: make([]byte, 1<<(class+minFrameBits))}
	}
	f.b = f.b[:n]
	return f
}

// free gives the frame back. Nothing may hold on to its bytes.
func (f *frame) free() {
	f.unburden()
	f.small = false
	f.b = f.b[:cap(f.b)]
	if class := frameClass(len(f.b)); len(f.b) == 1<<(class+minFrameBits) {
		framePools[class].Put(f)
	}
}

// lay gives f back, but not what was taken for it, until take.
func (f *frame) lay() (taken int64) {
	taken, f.from = f.bytes, nil
	f.free()
	return taken
}

// frameOf returns a frame of n bytes for which taken bytes of p are held.
func frameOf(p *share.Part, n int, taken int64) *frame {
	f := newFrame(n)
	f.from, f.bytes = p, taken
	return f
}

// tryFrame returns a frame of n bytes of p, or nil if there is no room.
func tryFrame(p *share.Part, n int) *frame {
	if !p.Reserve(share.Data, int64(n)) {
		return nil
	}
	return frameOf(p, n, int64(n))
}

// waitFrame returns a frame of n bytes of p, and waits for room if it must.
func waitFrame(ctx context.Context, p *share.Part, n int) (*frame, error) {
	if err := p.Wait(ctx, share.Data, int64(n)); err != nil {
		return nil, err
	}
	return frameOf(p, n, int64(n)), nil
}

// smallFrame returns an empty frame for a reply without data.
func smallFrame(p *share.Part) *frame {
	f := newFrame(0)
	f.from, f.bytes, f.small = p, 1<<minFrameBits, true
	p.Charge(share.Data, f.bytes)
	return f
}

// move gives f's bytes to p, until it is freed, if there is room for them.
func (f *frame) move(p *share.Part) bool {
	f.unburden()
	n := int64(len(f.b))
	if !p.Reserve(share.Data, n) {
		return false
	}
	f.from, f.bytes = p, n
	return true
}

// unburden gives back what was taken for f.
func (f *frame) unburden() {
	if f.from != nil {
		f.from.Give(share.Data, f.bytes)
		f.from = nil
	}
}

// A frameReader cuts a byte stream into frames. It asks for memory only as
// far as bytes arrived, whatever size a frame claims.
type frameReader struct {
	r     io.Reader
	buf   []byte // its part [start:end] has been read and not yet returned
	start int
	end   int
	half  int    // of what was read last, if that is much; see halfway
	large *frame // the frame last returned, if it did not fit buf

	ctx      context.Context // of the waits for room
	room     *share.Part     // for frames that do not fit buf; nil: as much as is agreed
	deadline func(time.Time) // sets when what is read next has to be there; nil: there is no such time
}

const readBuffer = 8 << 10

func newFrameReader(r io.Reader) *frameReader {
	return &frameReader{r: r, buf: make([]byte, readBuffer)}
}

// next returns the next frame, which holds until the call after. A frame
// larger than limit is an error, and so is one that cannot be: nothing can
// follow it. At the end of the stream it returns io.EOF.
func (f *frameReader) next(limit uint32) ([]byte, error) {
	f.drop()
	if err := f.fill(4); err != nil {
		return nil, err
	}
	size := binary.LittleEndian.Uint32(f.buf[f.start:])
	switch {
	case size < 7:
		return nil, fsys.E(fsys.Invalid, "a message of less than 7 bytes")
	case size > limit:
		return nil, fsys.E(fsys.TooLarge, "a message is larger than was agreed")
	case int(size) > len(f.buf):
		return f.nextLarge(int(size))
	}
	if err := f.fill(int(size)); err != nil {
		return nil, midFrame(err)
	}
	b := f.buf[f.start : f.start+int(size)]
	f.start += int(size)
	return b, nil
}

// ready reports whether next will find a whole frame without waiting.
func (f *frameReader) ready() bool {
	have := f.end - f.start
	return have >= 4 && uint64(binary.LittleEndian.Uint32(f.buf[f.start:])) <= uint64(have)
}

// muchRead is so much that who asked can go on with half of the answers while
// the other half is worked on.
const muchRead = 256

// halfway reports, once, that half of what was read together has been returned.
func (f *frameReader) halfway() bool {
	if f.half == 0 || f.start < f.half {
		return false
	}
	f.half = 0
	return true
}

// fill reads until n bytes are in buf.
func (f *frameReader) fill(n int) error {
	if f.start+n > len(f.buf) || f.start == f.end {
		f.end = copy(f.buf, f.buf[f.start:f.end])
		f.start = 0
	}
	for f.end-f.start < n {
		m, err := f.r.Read(f.buf[f.end:])
		f.end += m
		if f.half = 0; m >= muchRead {
			f.half = f.end - m/2
		}
		if err != nil && f.end-f.start < n {
			return err
		}
	}
	return nil
}

// A frame that does not fit a frameReader's buffer comes by minRate bytes in a
// second at least, after frameGrace: who sends it more slowly keeps from others
// what it is kept in.
const (
	frameGrace = 10 * time.Second
	minRate    = 16 << 10
)

func (f *frameReader) nextLarge(size int) ([]byte, error) {
	if f.deadline != nil {
		defer f.deadline(time.Time{})
	}
	have := f.end - f.start
	large, err := f.frame(min(size, 2*len(f.buf)))
	if err != nil {
		return nil, err
	}
	copy(large.b, f.buf[f.start:f.end])
	f.start, f.end = 0, 0
	for {
		if f.deadline != nil {
			f.deadline(time.Now().Add(frameGrace + time.Duration(len(large.b)-have)*time.Second/minRate))
		}
		if _, err := io.ReadFull(f.r, large.b[have:]); err != nil {
			large.free()
			return nil, midFrame(err)
		}
		if have = len(large.b); have == size {
			break
		}
		more, err := f.frame(min(size, 4*have))
		if err != nil {
			large.free()
			return nil, err
		}
		copy(more.b, large.b)
		large.free()
		large = more
	}
	f.large = large
	return large.b, nil
}

func (f *frameReader) frame(n int) (*frame, error) {
	if f.room == nil {
		return newFrame(n), nil
	}
	return waitFrame(f.ctx, f.room, n)
}

// keep makes the frame that next returned last, or the part b of it, outlive
// the next call. Who keeps it frees it.
func (f *frameReader) keep(b []byte) (kept *frame, part []byte) {
	if kept = f.large; kept != nil {
		f.large = nil
		return kept, b
	}
	kept = newFrame(len(b))
	copy(kept.b, b)
	return kept, kept.b
}

// drop frees the frame that next returned last.
func (f *frameReader) drop() {
	if f.large != nil {
		f.large.free()
		f.large = nil
	}
}

func midFrame(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
