package store

import (
	"context"
	"sync/atomic"

	"agent9/fsys"
)

// A Snapshot is the Store of one moment, which can only be read. It is for
// drivers, whose View hands it out and ends it.
type Snapshot struct {
	base Base
	over atomic.Bool
}

var (
	_ Lender  = (*Snapshot)(nil)
	_ Scanner = (*Snapshot)(nil)
)

// NewSnapshot returns what base holds, which does not change before End.
func NewSnapshot(base Base) *Snapshot { return &Snapshot{base: base} }

// End makes every later use fail.
func (s *Snapshot) End() { s.over.Store(true) }

func (s *Snapshot) check(ctx context.Context) error {
	if s.over.Load() {
		return fsys.E(fsys.Internal, "a view of the database was used after its end")
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

func (s *Snapshot) Get(ctx context.Context, key string) ([]byte, error) {
	if err := s.check(ctx); err != nil {
		return nil, err
	}
	value, err := s.base.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	return Clone(value), nil
}

func (s *Snapshot) Lend(ctx context.Context, key string, f func([]byte) error) error {
	if err := s.check(ctx); err != nil {
		return err
	}
	value, err := s.base.Get(ctx, key)
	if err != nil {
		return err
	}
	return f(value)
}

func (s *Snapshot) Scan(ctx context.Context, prefix, after string, f func(key string, value []byte) bool) error {
	if err := s.check(ctx); err != nil {
		return err
	}
	return s.base.Range(ctx, prefix, after, f)
}

func (s *Snapshot) List(ctx context.Context, prefix, after string, n int) ([]Pair, error) {
	if err := s.check(ctx); err != nil {
		return nil, err
	}
	return Page(n, func(f func(string, []byte) bool) error { return s.base.Range(ctx, prefix, after, f) })
}

var errReadOnly = fsys.E(fsys.Internal, "a view of the database cannot be written to")

func (s *Snapshot) Put(context.Context, string, []byte) error { return errReadOnly }
func (s *Snapshot) Delete(context.Context, string) error      { return errReadOnly }
