// Package stage holds changes to a store back, so that much work of many
// transactions can be stored in one, or not at all.
//
// A [Stage] lies over a view of a store and is a store.Updater itself: what is
// written to it is in memory, and visible only to readers of the stage,
// until Commit writes all of it in a transaction of the store below. Who makes
// a stage keeps others from changing what lies below it meanwhile; a stage
// does not find out if they do.
package stage

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"

	"agent9/fsys"
	"agent9/store"
)

// A Stage is a store whose changes are in memory.
type Stage struct {
	under store.Updater
	reads store.Store // under, or what it was when a view of it began
	limit int64
	turn  fsys.Mutex // locked while a transaction runs

	mu      sync.RWMutex
	changes map[string][]byte // nil: deleted
	views   *int              // that read changes, which then does not change
	size    int64             // of the keys and values in changes
	over    bool
}

var _ store.Updater = (*Stage)(nil)

// New returns a stage without changes over under. A transaction that would
// make it hold more than limit bytes fails with fsys.NoSpace.
func New(under store.Updater, limit int64) *Stage {
	return &Stage{under: under, reads: under, limit: limit, changes: make(map[string][]byte), views: new(int)}
}

// Commit writes all that was changed in the transaction that tx belongs to.
// What is changed after it is refused if that transaction is committed.
func (s *Stage) Commit(ctx context.Context, tx store.Store) error {
	s.turn.Lock(context.Background()) // a Commit that began is not given up
	defer s.turn.Unlock()
	if err := s.check(); err != nil {
		return err
	}
	in := store.In(tx, s.under)
	for _, key := range slices.Sorted(maps.Keys(s.changes)) {
		value := s.changes[key]
		var err error
		if value == nil {
			err = in.Delete(ctx, key)
		} else {
			err = store.Give(ctx, in, key, value)
		}
		if err != nil {
			return err
		}
	}
	store.After(tx, func() { s.Close() })
	return nil
}

// Close drops what was not committed. Every operation after it fails with
// fsys.Unavailable. It returns nil.
func (s *Stage) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	s.changes = nil
	return nil
}

var errOver = fsys.E(fsys.Unavailable, "these changes were already committed or dropped")

func (s *Stage) check() error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.over {
		return errOver
	}
	return nil
}

func (s *Stage) Update(ctx context.Context, f func(tx store.Store) error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := s.turn.Lock(ctx); err != nil {
		return err
	}
	defer s.turn.Unlock()
	if err := s.check(); err != nil {
		return err
	}
	tx := store.NewTx(s, base{s})
	committed := false
	defer func() { tx.End(committed) }()
	err := tx.Run(f)
	if err == nil {
		err = s.apply(tx.Changes())
	}
	committed = err == nil
	return err
}

func (s *Stage) View(ctx context.Context, f func(store.Store) error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := s.check(); err != nil {
		return err
	}
	s.mu.Lock()
	changes, views := s.changes, s.views
	*views++
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		*views--
		s.mu.Unlock()
	}()
	return s.under.View(ctx, func(under store.Store) error {
		snapshot := store.NewSnapshot(base{&Stage{reads: under, changes: changes, views: new(int)}})
		defer snapshot.End()
		return f(snapshot)
	})
}

// apply takes all changes, or none if they are too many.
func (s *Stage) apply(changes iter.Seq2[string, []byte]) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	size := s.size
	for key, value := range changes {
		if old, was := s.changes[key]; was {
			size -= int64(len(key) + len(old))
		}
		size += int64(len(key) + len(value))
	}
	if size > s.limit && size > s.size {
		return fsys.E(fsys.NoSpace, fmt.Sprintf("the staged changes exceed %d bytes", s.limit))
	}
	if s.over {
		return errOver
	}
	if *s.views > 0 {
		s.changes, s.views = maps.Clone(s.changes), new(int)
	}
	for key, value := range changes {
		if value != nil {
			value = store.Clone(value) // it was perhaps only given
		}
		s.changes[key] = value
	}
	s.size = size
	return nil
}

func (s *Stage) Get(ctx context.Context, key string) ([]byte, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	s.mu.RLock()
	value, changed := s.changes[key]
	s.mu.RUnlock()
	switch {
	case !changed:
		return s.reads.Get(ctx, key)
	case value == nil:
		return nil, fsys.NotExist
	}
	return store.Clone(value), nil
}

func (s *Stage) Put(ctx context.Context, key string, value []byte) error {
	return s.Update(ctx, func(tx store.Store) error { return tx.Put(ctx, key, value) })
}

func (s *Stage) Delete(ctx context.Context, key string) error {
	return s.Update(ctx, func(tx store.Store) error { return tx.Delete(ctx, key) })
}

func (s *Stage) List(ctx context.Context, prefix, after string, n int) ([]store.Pair, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	return store.Page(n, func(f func(string, []byte) bool) error { return base{s}.Range(ctx, prefix, after, f) })
}

// base is what a transaction of a stage begins with.
type base struct{ stage *Stage }

func (b base) Get(ctx context.Context, key string) ([]byte, error) { return b.stage.Get(ctx, key) }

func (b base) Range(ctx context.Context, prefix, after string, f func(key string, value []byte) bool) error {
	b.stage.mu.Lock()
	changes, views := b.stage.changes, b.stage.views
	*views++
	b.stage.mu.Unlock()
	defer func() {
		b.stage.mu.Lock()
		*views--
		b.stage.mu.Unlock()
	}()
	under := func(f func(string, []byte) bool) error {
		return store.Scan(ctx, b.stage.reads, prefix, after, f)
	}
	return store.Merge(changes, prefix, after, under, f)
}
