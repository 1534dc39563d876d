// Package faulty is a store.Updater that fails when it is told to: a test
// double over another store, for what services do on a bad disk. Without a
// Fault it keeps the contract of the store below it.
package faulty

import (
	"context"
	"io"
	"sync"

	"agent9/fsys"
	"agent9/store"
)

// A Moment is when a Fault is asked.
type Moment string

const (
	// Read is before something is read, or a view begins.
	Read Moment = "read"
	// Begin is before a transaction, which then is none.
	Begin Moment = "begin"
	// Write is when all of a transaction has been done but for committing it,
	// which then does not come about.
	Write Moment = "write"
	// Synced is after a transaction has been committed: who asked for it is
	// told that it was not, as by a disk that loses its answer.
	Synced Moment = "synced"
)

// A Fault is asked at every moment, and returns the error to fail with, or
// nil. It may wait. It is called by many at once for Read, else by one
// at a time.
type Fault func(at Moment) error

// A Store is another one with faults. It is made with New.
type Store struct {
	below store.Updater
	turn  fsys.Mutex // locked while a transaction runs

	mu    sync.Mutex
	fault Fault
}

var _ store.Updater = (*Store)(nil)

// New returns below, without faults.
func New(below store.Updater) *Store { return &Store{below: below} }

// Inject has f asked from now on; nil is no fault.
func (s *Store) Inject(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = f
}

func (s *Store) fails(at Moment) error {
	s.mu.Lock()
	f := s.fault
	s.mu.Unlock()
	if f == nil {
		return nil
	}
	return f(at)
}

func (s *Store) Get(ctx context.Context, key string) ([]byte, error) {
	if err := s.fails(Read); err != nil {
		return nil, err
	}
	return s.below.Get(ctx, key)
}

func (s *Store) List(ctx context.Context, prefix, after string, n int) ([]store.Pair, error) {
	if err := s.fails(Read); err != nil {
		return nil, err
	}
	return s.below.List(ctx, prefix, after, n)
}

func (s *Store) View(ctx context.Context, f func(store.Store) error) error {
	if err := s.fails(Read); err != nil {
		return err
	}
	return s.below.View(ctx, f)
}

func (s *Store) Put(ctx context.Context, key string, value []byte) error {
	return s.Update(ctx, func(tx store.Store) error { return tx.Put(ctx, key, value) })
}

func (s *Store) Delete(ctx context.Context, key string) error {
	return s.Update(ctx, func(tx store.Store) error { return tx.Delete(ctx, key) })
}

func (s *Store) Update(ctx context.Context, f func(tx store.Store) error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := s.turn.Lock(ctx); err != nil {
		return err
	}
	defer s.turn.Unlock()
	if err := s.fails(Begin); err != nil {
		return err
	}
	var tx *store.Tx
	var synced error
	err := s.below.Update(ctx, func(under store.Store) error {
		tx = store.NewTx(s, base{under})
		if err := tx.Run(f); err != nil {
			return err
		}
		if err := s.fails(Write); err != nil {
			return err
		}
		for key, value := range tx.Changes() {
			err := under.Delete(ctx, key)
			if value != nil {
				err = under.Put(ctx, key, value)
			}
			if err != nil {
				return err
			}
		}
		store.After(under, func() {
			synced = s.fails(Synced)
			tx.End(synced == nil)
		})
		return nil
	})
	if err != nil && tx != nil {
		tx.End(false)
	}
	if err == nil {
		err = synced
	}
	return err
}

// Close ends the store below.
func (s *Store) Close() error {
	if c, ok := s.below.(io.Closer); ok {
		return c.Close()
	}
	return fsys.E(fsys.Unsupported, "this store cannot be closed")
}

// base is a transaction of the store below.
type base struct{ under store.Store }

func (b base) Get(ctx context.Context, key string) ([]byte, error) { return b.under.Get(ctx, key) }

func (b base) Range(ctx context.Context, prefix, after string, f func(key string, value []byte) bool) error {
	return store.Scan(ctx, b.under, prefix, after, f)
}
