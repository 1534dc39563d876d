// Package mem is a store.Updater in memory, for tests and for what need not
// outlive the program.
package mem

import (
	"context"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"

	"agent9/fsys"
	"agent9/store"
)

// A DB is an empty store, made with New.
type DB struct {
	turn fsys.Mutex // locked while a transaction runs

	mu     sync.RWMutex
	keys   []string // ascending
	values map[string][]byte
	closed bool
}

var _ store.Updater = (*DB)(nil)

func New() *DB {
	return &DB{values: make(map[string][]byte)}
}

// Close waits for the transaction that runs. Every operation after it fails
// with fsys.Unavailable.
func (d *DB) Close() error {
	d.turn.Lock(context.Background())
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.turn.Unlock()
	return nil
}

func (d *DB) check() error {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.closed {
		return fsys.E(fsys.Unavailable, "the database is closed")
	}
	return nil
}

func (d *DB) Update(ctx context.Context, f func(tx store.Store) error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := d.turn.Lock(ctx); err != nil {
		return err
	}
	defer d.turn.Unlock()
	if err := d.check(); err != nil {
		return err
	}
	tx := store.NewTx(d, base{d})
	committed := false
	defer func() { tx.End(committed) }()
	if err := tx.Run(f); err != nil {
		return err
	}
	d.apply(tx.Changes())
	committed = true
	return nil
}

func (d *DB) View(ctx context.Context, f func(s store.Store) error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := d.check(); err != nil {
		return err
	}
	d.mu.RLock()
	then := &DB{keys: slices.Clone(d.keys), values: maps.Clone(d.values)}
	d.mu.RUnlock()
	s := store.NewSnapshot(base{then})
	defer s.End()
	return f(s)
}

func (d *DB) apply(changes iter.Seq2[string, []byte]) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for key, value := range changes {
		i, found := slices.BinarySearch(d.keys, key)
		switch {
		case value == nil && found:
			d.keys = slices.Delete(d.keys, i, i+1)
			delete(d.values, key)
		case value != nil && !found:
			d.keys = slices.Insert(d.keys, i, key)
			fallthrough
		case value != nil:
			d.values[key] = store.Clone(value) // which was perhaps only given
		}
	}
}

func (d *DB) Get(ctx context.Context, key string) ([]byte, error) {
	if err := d.check(); err != nil {
		return nil, err
	}
	value, err := base{d}.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	return store.Clone(value), nil
}

func (d *DB) Put(ctx context.Context, key string, value []byte) error {
	return d.Update(ctx, func(tx store.Store) error { return tx.Put(ctx, key, value) })
}

func (d *DB) Delete(ctx context.Context, key string) error {
	return d.Update(ctx, func(tx store.Store) error { return tx.Delete(ctx, key) })
}

func (d *DB) List(ctx context.Context, prefix, after string, n int) ([]store.Pair, error) {
	if err := d.check(); err != nil {
		return nil, err
	}
	return store.Page(n, func(f func(string, []byte) bool) error { return base{d}.Range(ctx, prefix, after, f) })
}

// base is what has been committed. A stored value is replaced, never changed.
type base struct{ d *DB }

func (b base) Get(_ context.Context, key string) ([]byte, error) {
	b.d.mu.RLock()
	defer b.d.mu.RUnlock()
	value, ok := b.d.values[key]
	if !ok {
		return nil, fsys.NotExist
	}
	return value, nil
}

func (b base) Range(_ context.Context, prefix, after string, f func(key string, value []byte) bool) error {
	b.d.mu.RLock()
	defer b.d.mu.RUnlock()
	i, found := slices.BinarySearch(b.d.keys, max(prefix, after))
	if found && max(prefix, after) == after {
		i++
	}
	for ; i < len(b.d.keys) && strings.HasPrefix(b.d.keys[i], prefix); i++ {
		if !f(b.d.keys[i], b.d.values[b.d.keys[i]]) {
			break
		}
	}
	return nil
}
