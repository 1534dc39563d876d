package work

import (
	"bytes"
	"context"
	"sync/atomic"

	"agent9/fsys"
	"agent9/store"
)

// A Document is what is written seldom and asked for with everything that is
// done: a policy. It is parsed once after it was written. Who gets its value
// does not change what that refers to.
type Document[T any] struct {
	Key string
	// Default is the value as long as nothing is stored.
	Default func() T
	Parse   func(text []byte) (T, error)

	last atomic.Pointer[parsed[T]]
}

type parsed[T any] struct {
	text  []byte
	value T
}

// Read returns the value that st has.
func (d *Document[T]) Read(ctx context.Context, st store.Store) (value T, err error) {
	err = store.Lend(ctx, st, d.Key, func(text []byte) error {
		if last := d.last.Load(); last != nil && bytes.Equal(text, last.text) {
			value = last.value
			return nil
		}
		var err error
		if value, err = d.Parse(text); err == nil {
			d.last.Store(&parsed[T]{bytes.Clone(text), value})
		}
		return err
	})
	if fsys.CodeOf(err) == fsys.NotExist {
		return d.Default(), nil
	}
	return value, err
}

// Text returns the value that st has as a line of JSON.
func (d *Document[T]) Text(ctx context.Context, st store.Store) ([]byte, error) {
	value, err := d.Read(ctx, st)
	if err != nil {
		return nil, err
	}
	return fsys.Line(value), nil
}
