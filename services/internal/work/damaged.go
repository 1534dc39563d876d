package work

import (
	"context"
	"encoding/json"
	"strings"

	"agent9/fsys"
	"agent9/store"
)

// Why is the reason for which work is removed whose record cannot be read.
const Why = "its record was damaged"

// Damaged is the directory of work whose record is damaged, for why. It has one
// file, which says so, and removing it removes what there is of the work.
func Damaged(why error, remove func(ctx context.Context) error) fsys.Node {
	return fsys.NewTableWith(damaged{why, remove})
}

const damagedName = "damaged"

type damaged struct {
	why    error
	remove func(ctx context.Context) error
}

func (d damaged) Walk(_ context.Context, name string) (fsys.Node, error) {
	if name == damagedName {
		return reason{fsys.Const(fsys.ReasonOf(d.why) + "\n")}, nil
	}
	return nil, d.why
}

func (d damaged) List(ctx context.Context) ([]fsys.Entry, error) {
	n, err := d.Walk(ctx, damagedName)
	return []fsys.Entry{{Name: damagedName, Node: n}}, err
}

func (d damaged) Stat(context.Context) (fsys.Info, error) { return fsys.Info{Perm: 0o755}, nil }

func (d damaged) Remove(ctx context.Context) error { return d.remove(ctx) }

// reason goes with its directory, so that rm -r works.
type reason struct{ fsys.Node }

func (reason) Remove(context.Context) error { return nil }

// Erase deletes all that is stored of work n, which is not read: what is below
// each of prefixes and its number, what the indexes by time have of it, and the
// idempotency keys that stand for it. A key whose own record is damaged stays.
func Erase(ctx context.Context, tx store.Store, n int64, prefixes, byTime []string) error {
	for _, prefix := range prefixes {
		if err := store.DeleteAll(ctx, tx, prefix+Padded(n)); err != nil {
			return err
		}
	}
	for _, prefix := range append(byTime, keyPrefix) {
		for p, err := range store.All(ctx, store.Forgiving(tx), prefix) {
			if err != nil {
				return err
			}
			var k Key
			of := strings.HasSuffix(p.Key, "/"+Padded(n))
			if prefix == keyPrefix {
				of = json.Unmarshal(p.Value, &k) == nil && k.Number == n
			}
			if !of {
				continue
			}
			if err := tx.Delete(ctx, p.Key); err != nil {
				return err
			}
		}
	}
	return nil
}
