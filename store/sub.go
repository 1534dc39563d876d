package store

import (
	"context"
	"slices"

	"agent9/fsys"
)

// Sub returns a view of s: its keys are prefix+key in s, and its transactions
// hand out a tx with the same prefix. A view sees nothing else of s.
func Sub(s Updater, prefix string) Updater {
	if v, ok := s.(*sub); ok {
		return &sub{prefixed{v.root, v.prefix + prefix}, v.root, v.owner}
	}
	return &sub{prefixed{s, prefix}, s, nil}
}

// Owned returns a view of all of s. Whoever refers to it, or to a view of it,
// keeps owner in memory: so there is no second owner as long as anybody can
// change what the first one has stored.
func Owned(s Updater, owner any) Updater {
	v := Sub(s, "").(*sub)
	v.owner = owner
	return v
}

// In returns s as it is seen inside the transaction that tx belongs to, so
// that two services, each with a view of its own, change together. tx is what
// Update handed out, or a result of In; s is a view of the same database.
// Otherwise every operation on the result fails with fsys.Internal.
func In(tx, s Store) Store {
	t, root := transaction(tx)
	if t == nil {
		return misused("a change needs a transaction")
	}
	switch v := s.(type) {
	case *sub:
		if v.root == root {
			return &txView{prefixed{t, v.prefix}, root}
		}
	case *txView:
		if v.s == t {
			return v
		}
	default:
		if s == Store(root) || s == t {
			return t
		}
	}
	return misused("a transaction of one database was used for another")
}

// After makes f run once when the transaction that tx belongs to has been
// committed, and not at all if it is undone. What follows one transaction runs
// in the order in which it was asked for, before what follows the next one and
// before Update returns; so f must neither block nor write to the store. If tx
// is not in a transaction, f runs at once.
func After(tx Store, f func()) {
	if _, ok := tx.(misused); ok {
		return
	}
	if t := txOf(tx); t != nil {
		t.ends = append(t.ends, func(committed bool) {
			if committed {
				f()
			}
		})
		return
	}
	f()
}

// transaction returns the Store that tx is a view of and the database, or nil
// if tx is not in a transaction.
func transaction(tx Store) (Store, Updater) {
	switch v := tx.(type) {
	case *Tx:
		return v, v.db
	case *txView:
		return v.s, v.root
	}
	return nil, nil
}

// Give is Put without a copy: value must not be changed before the transaction
// that s belongs to has ended.
func Give(ctx context.Context, s Store, key string, value []byte) error {
	if value == nil {
		value = []byte{} // in a transaction, nil deletes
	}
	switch v := s.(type) {
	case *txView:
		if err := Check(key, value); err != nil {
			return err
		}
		return Give(ctx, v.s, v.prefix+key, value)
	case *Tx:
		return v.keep(key, slices.Clip(value)) // what is behind it is not the store's
	}
	return s.Put(ctx, key, value)
}

func txOf(tx Store) *Tx {
	s, _ := transaction(tx)
	t, _ := s.(*Tx)
	return t
}

// Part returns what lies below prefix in s, which is for reading or writing on
// its own: [In] does not know the result for a part of a transaction.
func Part(s Store, prefix string) Store { return prefixed{s, prefix} }

// prefixed is what a view does, in a transaction or not.
type prefixed struct {
	s      Store
	prefix string
}

func (p prefixed) Get(ctx context.Context, key string) ([]byte, error) {
	if key == "" {
		return nil, fsys.NotExist
	}
	return p.s.Get(ctx, p.prefix+key)
}

func (p prefixed) Lend(ctx context.Context, key string, f func([]byte) error) error {
	if key == "" {
		return fsys.NotExist
	}
	return Lend(ctx, p.s, p.prefix+key, f)
}

func (p prefixed) Scan(ctx context.Context, prefix, after string, f func(key string, value []byte) bool) error {
	return Scan(ctx, p.s, p.prefix+prefix, p.prefix+after, func(key string, value []byte) bool {
		return f(key[len(p.prefix):], value)
	})
}

func (p prefixed) Put(ctx context.Context, key string, value []byte) error {
	if err := Check(key, value); err != nil {
		return err
	}
	return p.s.Put(ctx, p.prefix+key, value)
}

func (p prefixed) Delete(ctx context.Context, key string) error {
	if key == "" {
		return nil
	}
	return p.s.Delete(ctx, p.prefix+key)
}

func (p prefixed) List(ctx context.Context, prefix, after string, n int) ([]Pair, error) {
	page, err := p.s.List(ctx, p.prefix+prefix, p.prefix+after, n)
	for i := range page {
		page[i].Key = page[i].Key[len(p.prefix):]
	}
	return page, err
}

// A sub is a view outside of a transaction.
type sub struct {
	prefixed
	root  Updater
	owner any // see Owned
}

func (v *sub) Update(ctx context.Context, f func(tx Store) error) error {
	return v.root.Update(ctx, func(tx Store) error {
		return f(&txView{prefixed{tx, v.prefix}, v.root})
	})
}

func (v *sub) View(ctx context.Context, f func(s Store) error) error {
	return v.root.View(ctx, func(s Store) error { return f(prefixed{s, v.prefix}) })
}

// A txView is a view inside a transaction.
type txView struct {
	prefixed
	root Updater
}

// misused is the Store of a mistake in the program.
type misused string

func (m misused) err() error { return fsys.E(fsys.Internal, string(m)) }

func (m misused) Get(context.Context, string) ([]byte, error) { return nil, m.err() }
func (m misused) Put(context.Context, string, []byte) error   { return m.err() }
func (m misused) Delete(context.Context, string) error        { return m.err() }
func (m misused) List(context.Context, string, string, int) ([]Pair, error) {
	return nil, m.err()
}

var (
	_ Updater = (*sub)(nil)
	_ Store   = (*txView)(nil)
)
