package agent

import (
	"context"
	"strings"
	"testing"
	"time"

	"agent9/fsys"
	"agent9/services/identity"
	"agent9/services/ticks"
	"agent9/store"
	"agent9/store/mem"
)

// No service has a file at the path of a mount below it: what a gate is put
// before cannot be reached, or changed, without it.
func TestNoServiceHasAFileWhereAnotherIsMounted(t *testing.T) {
	ctx, db := t.Context(), mem.New()
	ring, err := identity.RingFromPassphrase(ctx, store.Sub(db, "ring/"), []byte("not a secret"))
	if err != nil {
		t.Fatal(err)
	}
	house := &House{
		Life: ctx, Ring: ring, Now: time.Now, Happened: func(string, []byte) {},
		Due: func(context.Context, store.Store, string, ticks.Due) error { return nil },
	}
	st := store.Sub(db, "a/")
	if err := db.Update(ctx, func(tx store.Store) error { return Create(ctx, store.In(tx, st), st, house, "alice") }); err != nil {
		t.Fatal(err)
	}
	a, err := Open(ctx, st, house, "alice", "1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(context.Background()) })
	for _, upper := range rows {
		for _, lower := range rows {
			rest, below := strings.CutPrefix(lower.path, strings.TrimSuffix(upper.path, "/")+"/")
			if !below || upper.root == nil || lower.path == upper.path {
				continue
			}
			if _, err := fsys.WalkPath(ctx, upper.root(a), rest); fsys.CodeOf(err) != fsys.NotExist || err == nil {
				t.Errorf("the service at %s has %s too (%v); let it be a root of its own", upper.path, rest, err)
			}
		}
	}
}
