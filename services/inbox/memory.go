package inbox

import (
	"context"
	"errors"

	"agent9/fsys"
	"agent9/store"
)

// A memory keeps the latest ids that senders chose, so that one that comes
// again is known. It is the prefix of its keys:
//
//	n          how many ids there have been
//	id/<id>    whose it was
//	at/<n>     the nth id, until it is forgotten
type memory string

// remembered is how many ids are kept.
const remembered = 4096

func (m memory) count() string       { return string(m) + "n" }
func (m memory) id(id string) string { return string(m) + "id/" + id }
func (m memory) at(n uint64) string  { return string(m) + "at/" + digits(n, 13) }

// owner returns whose id was, or fsys.NotExist.
func (m memory) owner(ctx context.Context, s store.Store, id string) (string, error) {
	b, err := s.Get(ctx, m.id(id))
	return string(b), err
}

// add remembers an id that is not known, and forgets the oldest.
func (m memory) add(ctx context.Context, tx store.Store, id, owner string) error {
	n, err := store.GetJSON[uint64](ctx, store.Forgiving(tx), m.count())
	if store.IsDamaged(err) {
		n, err = m.next(ctx, tx)
	}
	if err != nil && !errors.Is(err, fsys.NotExist) {
		return err
	}
	if err := store.PutJSON(ctx, tx, m.count(), n+1); err != nil {
		return err
	}
	if err := tx.Put(ctx, m.id(id), []byte(owner)); err != nil {
		return err
	}
	if err := tx.Put(ctx, m.at(n), []byte(id)); err != nil {
		return err
	}
	if n < remembered {
		return nil
	}
	oldest, err := store.Forgiving(tx).Get(ctx, m.at(n-remembered))
	if err != nil && !store.IsDamaged(err) && !errors.Is(err, fsys.NotExist) {
		return err
	}
	if err := tx.Delete(ctx, m.id(string(oldest))); err != nil {
		return err
	}
	return tx.Delete(ctx, m.at(n-remembered))
}

// next returns the number of the next id, by those that are remembered.
func (m memory) next(ctx context.Context, s store.Store) (n uint64, err error) {
	for p, err := range store.All(ctx, store.Forgiving(s), string(m)+"at/") {
		if err != nil {
			return n, err
		}
		n = place(p.Key[len(m):]) + 1
	}
	return n, nil
}
