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

// GetJSON returns the value at key, decoded. The errors are those of Get;
// fsys.Internal says that what is stored is not a T.
func GetJSON[T any](ctx context.Context, s Store, key string) (T, error) {
	var v T
	b, err := s.Get(ctx, key)
	if err != nil {
		return v, err
	}
	if err := json.Unmarshal(b, &v); err != nil {
		return v, fsys.E(fsys.Internal, "the database record "+key+" cannot be read: "+err.Error())
	}
	return v, nil
}

// PutJSON stores v at key as JSON. It panics if v has no JSON form.
func PutJSON(ctx context.Context, s Store, key string, v any) error {
	return s.Put(ctx, key, fsys.Line(v))
}
