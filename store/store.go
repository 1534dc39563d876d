// Package store keeps what must survive: keys and values, in order, with
// transactions that many writers share one fsync for. Drivers are in store/mem
// and store/bolt.
package store

import (
	"context"
	"errors"
)

// A Store holds values by key. Keys are non-empty byte strings, ordered as
// such; by convention they are paths ("agents/alice/inbox/7"). Values that are
// returned are the caller's own.
//
// Errors carry a Code: fsys.NotExist from Get, fsys.NoSpace when the disk is
// full, fsys.Unavailable when it fails otherwise or the store is closed. One that
// is [ErrDamaged] says that what was asked for is not as it was stored.
type Store interface {
	// Get returns the value at key, or fsys.NotExist.
	Get(ctx context.Context, key string) ([]byte, error)
	// Put stores value at key.
	Put(ctx context.Context, key string, value []byte) error
	// Delete removes key; it is no error if there is none.
	Delete(ctx context.Context, key string) error
	// List returns up to n pairs whose keys begin with prefix and are greater
	// than after, in ascending order. n <= 0 means a default page. A page
	// shorter than n (or, for n <= 0, an empty one) is the last.
	List(ctx context.Context, prefix, after string, n int) ([]Pair, error)
}

// A Lender is a Store that can show a value without making a copy.
type Lender interface {
	Store
	// Lend calls f with the value at key and returns what f does, or
	// fsys.NotExist. The value is not f's: it is good until f returns, and must
	// not be changed. f uses no store.
	Lend(ctx context.Context, key string, f func(value []byte) error) error
}

// Lend calls f with the value at key: that of s itself if s is a [Lender], else
// a copy.
func Lend(ctx context.Context, s Store, key string, f func(value []byte) error) error {
	if l, ok := s.(Lender); ok {
		return l.Lend(ctx, key, f)
	}
	value, err := s.Get(ctx, key)
	if err != nil {
		return err
	}
	return f(value)
}

// ErrDamaged is in the chain of an error that says that a record is not as it was
// stored. Its Code is fsys.Internal.
var ErrDamaged = errors.New("the record is damaged")

// IsDamaged reports whether err is [ErrDamaged].
func IsDamaged(err error) bool { return errors.Is(err, ErrDamaged) }

// A Pair is a key and its value.
type Pair struct {
	Key   string
	Value []byte
}

// An Updater is a Store with transactions.
//
// Outside a transaction each Put and Delete is one of its own. When a write
// or Update returns nil, it is on disk.
type Updater interface {
	Store
	// Update runs f in a transaction: all that f writes to tx is stored, or,
	// if f returns an error, nothing, and Update returns that error. Updates
	// run one at a time, so what f reads from tx holds until it is committed;
	// those that wait are committed together. f must use only tx, must not
	// block, and is never retried.
	//
	// What f decides, it decides on what it reads from tx: a copy in memory
	// that [After] brings up to date is behind, as the transactions before
	// this one may not have been committed yet.
	Update(ctx context.Context, f func(tx Store) error) error
	// View runs f on what is committed at one moment: s does not change while
	// f reads it, whatever others write, and cannot be written to. It is good
	// until f returns, for one goroutine at a time. f may take its time: writes go on meanwhile, but for one
	// that a driver cannot do without waiting for f. So f waits for none.
	View(ctx context.Context, f func(s Store) error) error
}
