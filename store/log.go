package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"agent9/fsys"
)

const (
	// blockSize is how many bytes of a Log lie under one key. An append
	// rewrites the last block, so it bounds what a small one costs.
	blockSize = 8 << 10
	// maxWaiting is how many buffered bytes a Log holds in memory.
	maxWaiting = 64 << 10
)

// A Log is append-only data in a database: durable, and seen by any number of
// readers at any offset through its Tape. In memory it has its last block and
// what waits to be flushed.
//
// Bytes come by Append, which is part of a transaction, or by Buffer, which
// is for output that comes fast. Each p stays whole, and what one goroutine adds
// stays in its order.
//
// At any time there may be one Log on a view; its keys are "size" and "b/…".
type Log struct {
	ctx  context.Context // for reads; never ends
	s    Updater
	tape *fsys.Tape

	mu       sync.Mutex
	size     int64  // committed
	tail     block  // the last one committed, if it is known
	waiting  []byte // buffered, and visible behind size
	claimed  int    // bytes that transactions not yet ended put behind waiting
	later    []byte // buffered behind what is claimed; not yet visible
	dropping int    // transactions that delete the log, or have
}

type block struct {
	no   int64
	data []byte // never changed in place
}

var _ fsys.Bytes = (*Log)(nil)

// OpenLog returns the log that s holds, which may be empty. It writes nothing.
func OpenLog(ctx context.Context, s Updater) (*Log, error) {
	size, err := logSize(ctx, s)
	if err != nil {
		return nil, err
	}
	l := &Log{ctx: context.WithoutCancel(ctx), s: s, size: size}
	l.tape = fsys.NewTape(l)
	return l, nil
}

func logSize(ctx context.Context, s Store) (int64, error) {
	b, err := s.Get(ctx, "size")
	if errors.Is(err, fsys.NotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	size, err := strconv.ParseInt(string(b), 10, 64)
	if err != nil || size < 0 {
		return 0, fsys.E(fsys.Internal, "the size of a log in the database cannot be read")
	}
	return size, nil
}

const blocksPrefix = "b/"

func blockKey(no int64) string { return fmt.Sprintf("%s%016x", blocksPrefix, no) }

// Tape returns the stream of the log. The log's writer may End it.
func (l *Log) Tape() *fsys.Tape { return l.tape }

// Append adds what is buffered, and then p, in the transaction that tx belongs
// to, which may be that of any view of the same database. Readers see p when
// the transaction is committed. A log that was dropped is fsys.NotExist.
func (l *Log) Append(tx Store, p []byte) error {
	t := txOf(tx)
	in := In(tx, l.s)
	at, err := logSize(l.ctx, in)
	if err != nil {
		return err
	}
	a, err := l.plan(at, p)
	if err != nil {
		return err
	}
	t.ends = append(t.ends, func(committed bool) { l.ended(a, committed) })
	if len(a.data) == 0 {
		return nil
	}
	if a.tail, err = writeBlocks(l.ctx, in, at, a.data); err == nil {
		a.size = at + int64(len(a.data))
		err = in.Put(l.ctx, "size", strconv.AppendInt(nil, a.size, 10))
	}
	a.failed = err != nil
	return err
}

// appending is what one Append does when its transaction ends.
type appending struct {
	data     []byte
	buffered int // how much of data is the first of waiting and later
	claimed  int // and how much is not
	size     int64
	tail     block
	failed   bool
}

// plan decides what goes to offset at. The transactions that ran before this
// one and are not yet committed have written what lies between l.size and at:
// some or all of waiting, then, if there are claims, those and some of later.
func (l *Log) plan(at int64, p []byte) (*appending, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	planned := int(at - l.size)
	if l.dropping > 0 || planned < 0 {
		return nil, fsys.E(fsys.NotExist, "this log has been removed")
	}
	waiting := l.waiting[min(planned, len(l.waiting)):]
	var later []byte
	if l.claimed > 0 {
		later = l.later[max(0, min(planned-len(l.waiting)-l.claimed, len(l.later))):]
	}
	data := make([]byte, 0, len(waiting)+len(later)+len(p))
	data = append(append(append(data, waiting...), later...), p...)
	l.claimed += len(p)
	return &appending{data: data, buffered: len(waiting) + len(later), claimed: len(p), size: at}, nil
}

// ended runs when the transaction of a has ended, in the order of commits.
func (l *Log) ended(a *appending, committed bool) {
	defer l.tape.Grown()
	l.mu.Lock()
	defer l.mu.Unlock()
	if committed && !a.failed && len(a.data) > 0 {
		n := min(a.buffered, len(l.waiting))
		l.waiting, l.later = l.waiting[n:], l.later[a.buffered-n:]
		l.size, l.tail = a.size, a.tail
	}
	if l.claimed -= a.claimed; l.claimed == 0 {
		l.waiting, l.later = append(l.waiting, l.later...), nil
		if len(l.waiting) == 0 {
			l.waiting = nil // and its memory
		}
	}
}

// writeBlocks stores data at offset at, which is the end, and returns the new
// last block.
func writeBlocks(ctx context.Context, s Store, at int64, data []byte) (last block, err error) {
	for len(data) > 0 {
		b := block{no: at / blockSize}
		used := int(at % blockSize)
		n := min(blockSize-used, len(data))
		b.data = make([]byte, used, used+n)
		if used > 0 {
			if err := readBlock(ctx, s, b.no, b.data); err != nil {
				return block{}, err
			}
		}
		b.data = append(b.data, data[:n]...)
		if err := Give(ctx, s, blockKey(b.no), b.data); err != nil {
			return block{}, err
		}
		at, data, last = at+int64(n), data[n:], b
	}
	return last, nil
}

var errShortBlock = fsys.E(fsys.Internal, "a block of a log in the database is shorter than it was")

// getBlock returns block no, of which at least the first n bytes are there.
func getBlock(ctx context.Context, s Store, no int64, n int) ([]byte, error) {
	data, err := s.Get(ctx, blockKey(no))
	if err == nil && len(data) < n {
		err = errShortBlock
	}
	return data, err
}

// readBlock fills p with the beginning of block no.
func readBlock(ctx context.Context, s Store, no int64, p []byte) error {
	return Lend(ctx, s, blockKey(no), func(data []byte) error {
		if copy(p, data) < len(p) {
			return errShortBlock
		}
		return nil
	})
}

// Drop deletes the log in the transaction that tx belongs to. When that is
// committed the stream has ended, and nothing can be added any more.
func (l *Log) Drop(tx Store) error {
	t := txOf(tx)
	if t == nil {
		return misused("a log can be removed only in a transaction").err()
	}
	in := In(tx, l.s)
	if err := DeleteAll(l.ctx, in, ""); err != nil {
		return err
	}
	l.mu.Lock()
	l.dropping++
	l.mu.Unlock()
	t.ends = append(t.ends, func(committed bool) { l.dropped(committed) })
	return nil
}

func (l *Log) dropped(committed bool) {
	l.mu.Lock()
	if committed {
		l.size, l.waiting, l.later, l.tail = 0, nil, nil, block{}
	} else {
		l.dropping--
	}
	l.mu.Unlock()
	if committed {
		l.tape.End()
	}
}
