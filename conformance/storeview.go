package conformance

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"agent9/fsys"
	"agent9/store"
)

// storeView checks that a view is one moment, while others write.
func storeView(t *testing.T, s store.Updater) {
	ctx := t.Context()
	must(t, s.Put(ctx, "room", make([]byte, 1<<20))) // so that writes need no larger file
	must(t, s.Delete(ctx, "room"))
	put(t, s, "a", "b", "d")
	var left store.Store
	mine := errors.New("mine")
	err := s.View(ctx, func(v store.Store) error {
		left = v
		must(t, s.Update(ctx, func(tx store.Store) error {
			put(t, tx, "c")
			must(t, tx.Put(ctx, "a", []byte("changed")))
			return tx.Delete(ctx, "b")
		}))
		wantValue(t, v, "a", "value of a")
		wantValue(t, v, "b", "value of b")
		wantNone(t, v, "c")
		wantKeys(t, v, "", "", 10, "a b d")
		wantKeys(t, v, "", "a", 1, "b")
		wantKeys(t, v, "d", "", 10, "d")
		page, err := v.List(ctx, "", "", 1)
		must(t, err)
		copy(page[0].Value, "XXXX")
		wantValue(t, v, "a", "value of a")
		wantCode(t, "Put in a view", v.Put(ctx, "x", nil), fsys.Internal)
		wantCode(t, "Delete in a view", v.Delete(ctx, "a"), fsys.Internal)
		return mine
	})
	if !errors.Is(err, mine) {
		t.Errorf("View: got error %v, want the one that f returned", err)
	}
	wantValue(t, s, "a", "changed")
	wantKeys(t, s, "", "", 10, "a c d")
	_, err = left.Get(ctx, "a")
	wantCode(t, "Get after the end of a view", err, fsys.Internal)

	// A view of a view sees its own part only.
	put(t, s, "x/1", "x/2", "y/1")
	must(t, store.Sub(s, "x/").View(ctx, func(v store.Store) error {
		wantKeys(t, v, "", "", 10, "1 2")
		wantValue(t, v, "1", "value of x/1")
		wantCode(t, "Put in a view", v.Put(ctx, "3", nil), fsys.Internal)
		return nil
	}))
	ended, cancel := context.WithCancel(ctx)
	cancel()
	err = s.View(ended, func(v store.Store) error {
		_, err := v.Get(ended, "a")
		return err
	})
	wantCode(t, "View with an ended context", err, fsys.Canceled)
}

// storeViewGrowing checks that a view stays what it was while others make the
// database many times as large, and that they can go on after it.
func storeViewGrowing(t *testing.T, s store.Updater) {
	ctx := t.Context()
	must(t, s.Put(ctx, "room", make([]byte, 1<<20)))
	must(t, s.Delete(ctx, "room"))
	for i := range 100 {
		put(t, s, fmt.Sprintf("k%02d", i))
	}
	begun, wrote := make(chan struct{}), make(chan error, 1)
	must(t, s.View(ctx, func(v store.Store) error {
		go func() {
			err := s.Put(ctx, "k00", []byte("new"))
			close(begun)
			for i := 1; i < 100 && err == nil; i++ {
				err = s.Put(ctx, fmt.Sprintf("k%02d", i), make([]byte, 64<<10))
			}
			wrote <- err
		}()
		<-begun
		n := 0
		for p, err := range store.All(ctx, v, "") {
			must(t, err)
			if string(p.Value) != "value of "+p.Key {
				t.Errorf("%s is %q in a view from before", p.Key, p.Value)
			}
			n++
		}
		if n != 100 {
			t.Errorf("a view has %d keys, want 100", n)
		}
		return nil
	}))
	must(t, <-wrote)
}
