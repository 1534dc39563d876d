// Package bolt is a store.Updater in one file, on go.etcd.io/bbolt.
//
// Transactions that wait are committed together: one goroutine runs them one
// after another, each over an overlay of its own so that one that fails takes
// nothing along, writes all that succeeded in a single transaction of the
// file, and answers everybody once that is on disk.
//
// When the disk is full, what was to be written is refused with fsys.NoSpace,
// and the database works again as soon as there is space. When writing fails
// otherwise, nobody knows what is on disk: nothing more is written until the
// file has been opened again. What cannot be read is fsys.Unavailable.
package bolt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync"

	"agent9/fsys"
	"agent9/store"

	"go.etcd.io/bbolt"
	boltErrors "go.etcd.io/bbolt/errors"
)

// The two buckets of the file: what is stored, and how.
var (
	dataBucket = []byte("data")
	metaBucket = []byte("agent9")
	schemaKey  = []byte("schema")
)

// firstVersion is the version of a database that no step has raised. One that
// has no version is older still, and has the same form.
const firstVersion = 1

// A DB is an open database. It holds a lock on its file.
type DB struct {
	path string
	opt  Options
	file *bbolt.DB
	done chan struct{} // closed when the committer has ended
	kept readers

	mu     sync.Mutex
	queue  []*request
	queued chan struct{} // has a token when the queue was added to, or closed
	closed bool
	broken error // why nothing more is written
}

var (
	_ store.Updater = (*DB)(nil)
	_ store.Lender  = (*DB)(nil)
)

// Path returns the name of the file that was opened.
func (d *DB) Path() string { return d.path }

// Close waits for the transactions that wait, and releases the file. Every
// operation after it fails with fsys.Unavailable.
func (d *DB) Close() error {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.wake()
	<-d.done
	d.kept.shut()
	d.listAllFree()
	return fsys.Wrap(fsys.Unavailable, "the database "+d.path, d.file.Close())
}

func (d *DB) Get(_ context.Context, key string) (value []byte, err error) {
	err = d.view(func(b base) error {
		v, ok := b.Get(key)
		if !ok {
			return fsys.NotExist
		}
		value = store.Clone(v)
		return nil
	})
	return value, err
}

func (d *DB) Lend(_ context.Context, key string, f func([]byte) error) error {
	return d.view(func(b base) error {
		v, ok := b.Get(key)
		if !ok {
			return fsys.NotExist
		}
		return f(v)
	})
}

func (d *DB) List(_ context.Context, prefix, after string, n int) (page []store.Pair, err error) {
	err = d.view(func(b base) error {
		page = store.Page(b.Range(prefix, after), n)
		return nil
	})
	return page, err
}

func (d *DB) Put(ctx context.Context, key string, value []byte) error {
	return d.Update(ctx, func(tx store.Store) error { return tx.Put(ctx, key, value) })
}

func (d *DB) Delete(ctx context.Context, key string) error {
	return d.Update(ctx, func(tx store.Store) error { return tx.Delete(ctx, key) })
}

func (d *DB) View(ctx context.Context, f func(s store.Store) error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return d.view(func(b base) error {
		s := store.NewSnapshot(b)
		defer s.End()
		return f(s)
	})
}

// view runs f on what is committed.
func (d *DB) view(f func(base) error) error {
	return d.guard(func() error {
		r, err := d.kept.take(d.file)
		if err != nil {
			return d.failed(err)
		}
		whole := false
		defer func() {
			if whole {
				d.kept.give(r)
			} else {
				r.tx.Rollback() // what it read broke it
			}
		}()
		err = f(r.base)
		whole = true
		return err
	})
}

// guard runs f, and makes an error of what the file's pages do to it when they
// are not what they should be.
func (d *DB) guard(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			slog.Error("the database cannot be read", "file", d.path, "panic", p, "stack", string(debug.Stack()))
			err = damaged(d.path, fmt.Sprint(p))
		}
	}()
	return f()
}

// failed gives an error of bbolt a code and a reason.
func (d *DB) failed(err error) error {
	switch {
	case errors.Is(err, boltErrors.ErrDatabaseNotOpen):
		return errClosed
	case noSpace(err):
		return &fsys.Error{Code: fsys.NoSpace, Reason: "there is no space for the database " + d.path, Err: err}
	}
	return &fsys.Error{Code: fsys.Unavailable, Reason: fmt.Sprintf("the database %s: %v", d.path, err), Err: err}
}

var errClosed = fsys.E(fsys.Unavailable, "the database is closed")

// base is the committed state in a transaction of the file, and what the same
// transaction of the file has put there since.
// It is for one goroutine at a time.
type base struct {
	bucket *bbolt.Bucket
	cursor *bbolt.Cursor // of Get: one that has sought once seeks for nothing
	key    *[]byte       // that Get sought last
}

func newBase(b *bbolt.Bucket) base { return base{b, b.Cursor(), new([]byte)} }

func (b base) Get(key string) ([]byte, bool) {
	k := append((*b.key)[:0], key...)
	*b.key = k
	found, value := b.cursor.Seek(k)
	if !bytes.Equal(found, k) {
		return nil, false
	}
	return value, true
}

func (b base) Range(prefix, after string) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		from := max(prefix, after)
		c := b.bucket.Cursor()
		key, value := c.Seek([]byte(from))
		if from == after && bytes.Equal(key, []byte(after)) {
			key, value = c.Next()
		}
		for ; key != nil && strings.HasPrefix(string(key), prefix); key, value = c.Next() {
			if !yield(string(key), value) {
				return
			}
		}
	}
}
