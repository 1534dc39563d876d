package store

import (
	"context"
	"encoding/json"
	"iter"

	"agent9/fsys"
)

// All yields every pair whose key begins with prefix, in ascending order, and
// ends after the first error. It reads page by page: what is changed meanwhile
// may be seen or not, and the loop may change what it has been given.
func All(ctx context.Context, s Store, prefix string) iter.Seq2[Pair, error] {
	return func(yield func(Pair, error) bool) {
		after := ""
		for {
			page, err := s.List(ctx, prefix, after, 0)
			if err != nil {
				yield(Pair{}, err)
				return
			}
			if len(page) == 0 {
				return
			}
			for _, p := range page {
				if !yield(p, nil) {
					return
				}
			}
			after = page[len(page)-1].Key
		}
	}
}

// A Scanner is a Store that can show many values without making copies.
type Scanner interface {
	Store
	// Scan calls f with the pairs whose keys begin with prefix and are greater
	// than after, in ascending order, until f returns false. The value is lent,
	// as by [Lend]. f uses no store.
	Scan(ctx context.Context, prefix, after string, f func(key string, value []byte) (more bool)) error
}

// Scan calls f with the pairs that Scan of s does, if s is a [Scanner], and with
// copies if not.
func Scan(ctx context.Context, s Store, prefix, after string, f func(key string, value []byte) (more bool)) error {
	if v, ok := s.(Scanner); ok {
		return v.Scan(ctx, prefix, after, f)
	}
	for {
		page, err := s.List(ctx, prefix, after, 0)
		if err != nil || len(page) == 0 {
			return err
		}
		for _, p := range page {
			if !f(p.Key, p.Value) {
				return nil
			}
		}
		after = page[len(page)-1].Key
	}
}

// GetJSON returns the value at key, decoded. The errors are those of Get;
// [ErrDamaged] also says that what is stored is not a T.
func GetJSON[T any](ctx context.Context, s Store, key string) (T, error) {
	var v T
	err := Lend(ctx, s, key, func(b []byte) error {
		if err := json.Unmarshal(b, &v); err != nil {
			return &fsys.Error{Code: fsys.Internal, Err: ErrDamaged, Reason: "the database record " + key + " cannot be read: " + err.Error()}
		}
		return nil
	})
	return v, err
}

// PutJSON stores v at key as JSON. It panics if v has no JSON form.
func PutJSON(ctx context.Context, s Store, key string, v any) error {
	return s.Put(ctx, key, fsys.Line(v))
}
