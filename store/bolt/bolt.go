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
//
// Each record has a checksum of its key and value, which every read verifies:
// what is not what was stored is store.ErrDamaged, and nothing else is.
package bolt

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"agent9/fsys"
	"agent9/store"

	"go.etcd.io/bbolt"
	boltErrors "go.etcd.io/bbolt/errors"
)

// The buckets of the file: what is stored, with a seal behind each value, what
// was stored before there were seals, and how.
var (
	sealedBucket = []byte("sealed")
	plainBucket  = []byte("data")
	metaBucket   = []byte("agent9")
	schemaKey    = []byte("schema")
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

	mixed atomic.Bool // there may be something in plainBucket

	mu     sync.Mutex
	told   map[string]bool // the damaged records that the log names
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

func (d *DB) Get(ctx context.Context, key string) (value []byte, err error) {
	err = d.view(func(b base) error {
		v, err := b.Get(ctx, key)
		if err == nil {
			value = store.Clone(v)
		}
		return err
	})
	return value, err
}

func (d *DB) Lend(ctx context.Context, key string, f func([]byte) error) error {
	return d.view(func(b base) error {
		v, err := b.Get(ctx, key)
		if err != nil {
			return err
		}
		return f(v)
	})
}

func (d *DB) List(ctx context.Context, prefix, after string, n int) (page []store.Pair, err error) {
	err = d.view(func(b base) error {
		page, err = store.Page(n, func(f func(string, []byte) bool) error { return b.Range(ctx, prefix, after, f) })
		return err
	})
	return page, err
}

// Forgiving is for [store.Forgiving].
func (d *DB) Forgiving() store.Store { return forgiving{d} }

type forgiving struct{ *DB }

func (d forgiving) List(ctx context.Context, prefix, after string, n int) (page []store.Pair, err error) {
	err = d.view(func(b base) error {
		page, err = store.Page(n, func(f func(string, []byte) bool) error { return b.Forgiving().Range(ctx, prefix, after, f) })
		return err
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
		r, err := d.take()
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
	defer d.recovered(&err)
	return f()
}

// failed gives an error of bbolt a code and a reason.
func (d *DB) failed(err error) error {
	switch {
	case errors.Is(err, boltErrors.ErrDatabaseNotOpen):
		return errClosed
	case noSpace(err):
		return &fsys.Error{Code: fsys.NoSpace, Reason: "there is no space for the database", Err: err}
	}
	return &fsys.Error{Code: fsys.Unavailable, Reason: fmt.Sprintf("the database %s: %v", d.path, err), Err: err}
}

var errClosed = fsys.E(fsys.Unavailable, "the database is closed")
