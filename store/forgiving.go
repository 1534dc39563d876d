package store

import (
	"context"

	"agent9/fsys"
)

// Forgiving returns s for readers that can do without a damaged record:
// in a listing, that has its key and a nil Value, which no other has; and in a
// transaction, its Get fails with [ErrDamaged] as ever, but does not undo what
// else is done there. A key that is itself damaged may be in the listing of
// another place.
func Forgiving(s Store) Store {
	switch v := s.(type) {
	case *Tx:
		return forgivingTx{v}
	case *txView:
		return prefixed{Forgiving(v.s), v.prefix}
	case *sub:
		return prefixed{Forgiving(v.s), v.prefix}
	case prefixed:
		return prefixed{Forgiving(v.s), v.prefix}
	case interface{ Forgiving() Store }:
		return v.Forgiving()
	}
	return s
}

// A ForgivingBase is a [Base] that can have damaged records.
type ForgivingBase interface {
	Base
	// Forgiving returns the same, whose Range gives a damaged record with a nil
	// value.
	Forgiving() Base
}

func forgivingBase(b Base) Base {
	if f, ok := b.(ForgivingBase); ok {
		return f.Forgiving()
	}
	return b
}

// Forgiving is for [Forgiving].
func (s *Snapshot) Forgiving() Store { return forgivingSnapshot{s} }

type forgivingSnapshot struct{ *Snapshot }

func (s forgivingSnapshot) List(ctx context.Context, prefix, after string, n int) ([]Pair, error) {
	if err := s.check(ctx); err != nil {
		return nil, err
	}
	return Page(n, func(f func(string, []byte) bool) error { return forgivingBase(s.base).Range(ctx, prefix, after, f) })
}

func (s forgivingSnapshot) Scan(ctx context.Context, prefix, after string, f func(key string, value []byte) bool) error {
	if err := s.check(ctx); err != nil {
		return err
	}
	return forgivingBase(s.base).Range(ctx, prefix, after, f)
}

// forgivingTx is a Tx that does not fail because of a record that is damaged.
type forgivingTx struct{ *Tx }

func (t forgivingTx) Get(ctx context.Context, key string) (value []byte, err error) {
	err = t.Lend(ctx, key, func(b []byte) error { value = Clone(b); return nil })
	return value, err
}

func (t forgivingTx) Lend(ctx context.Context, key string, f func([]byte) error) error {
	failed := t.failed
	err := t.Tx.Lend(ctx, key, f)
	if IsDamaged(err) {
		t.failed = failed
	}
	return err
}

func (t forgivingTx) List(ctx context.Context, prefix, after string, n int) ([]Pair, error) {
	if err := t.check(); err != nil {
		return nil, err
	}
	under := func(f func(string, []byte) bool) error { return forgivingBase(t.base).Range(ctx, prefix, after, f) }
	return Page(n, func(f func(string, []byte) bool) error {
		return t.read(Merge(t.changes, prefix, after, under, f))
	})
}

// DeleteAll deletes every key that begins with prefix, also of records that are
// damaged, in the transaction that tx belongs to.
func DeleteAll(ctx context.Context, tx Store, prefix string) error {
	for p, err := range All(ctx, Forgiving(tx), prefix) {
		if err == nil {
			err = tx.Delete(ctx, p.Key)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Has reports whether there is a record at key, whole or damaged.
func Has(ctx context.Context, s Store, key string) (bool, error) {
	_, err := Forgiving(s).Get(ctx, key)
	switch {
	case err == nil, IsDamaged(err):
		return true, nil
	case fsys.CodeOf(err) == fsys.NotExist:
		return false, nil
	}
	return false, err
}
