package stage_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"agent9/conformance"
	"agent9/fsys"
	"agent9/store"
	"agent9/store/mem"
	"agent9/store/stage"
)

// A stage keeps the contract of every store, over an empty one and over a
// part of one that has other data.
func TestStore(t *testing.T) {
	conformance.TestStore(t, func(t *testing.T) store.Updater { return stage.New(mem.New(), 1<<30) }, nil)
}

func TestStoreOverView(t *testing.T) {
	conformance.TestStore(t, func(t *testing.T) store.Updater {
		db := mem.New()
		for _, key := range []string{"a", "m/", "z"} {
			if err := db.Put(t.Context(), key, []byte("other")); err != nil {
				t.Fatal(err)
			}
		}
		return stage.New(store.Sub(db, "m/"), 1<<30)
	}, nil)
}

func fill(t *testing.T, s store.Store, pairs ...string) {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if err := s.Put(t.Context(), pairs[i], []byte(pairs[i+1])); err != nil {
			t.Fatal(err)
		}
	}
}

func dump(t *testing.T, s store.Store) string {
	t.Helper()
	var b strings.Builder
	for p, err := range store.All(t.Context(), s, "") {
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s=%s ", p.Key, p.Value)
	}
	return b.String()
}

func equal(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

func TestChangesAreSeenOnlyHereUntilTheCommit(t *testing.T) {
	db := mem.New()
	view := store.Sub(db, "v/")
	fill(t, view, "a", "1", "b", "1", "c", "1", "e", "1")
	s := stage.New(view, 1<<20)
	fill(t, s, "b", "2", "d", "2", "0", "2")
	if err := s.Delete(t.Context(), "c"); err != nil {
		t.Fatal(err)
	}
	equal(t, "the stage", dump(t, s), "0=2 a=1 b=2 d=2 e=1 ")
	equal(t, "below", dump(t, view), "a=1 b=1 c=1 e=1 ")
	err := db.Update(t.Context(), func(tx store.Store) error {
		if err := s.Commit(t.Context(), tx); err != nil {
			return err
		}
		return fsys.Busy
	})
	equal(t, "an undone commit", fmt.Sprint(err), fmt.Sprint(error(fsys.Busy)))
	equal(t, "below, after it", dump(t, view), "a=1 b=1 c=1 e=1 ")
	err = db.Update(t.Context(), func(tx store.Store) error { return s.Commit(t.Context(), tx) })
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "below, committed", dump(t, view), "0=2 a=1 b=2 d=2 e=1 ")
	if err := s.Put(t.Context(), "x", nil); fsys.CodeOf(err) != fsys.Unavailable {
		t.Errorf("a change after the commit: %v", err)
	}
}

func TestLimit(t *testing.T) {
	s := stage.New(mem.New(), 1000)
	fill(t, s, "a", strings.Repeat("x", 900))
	if err := s.Put(t.Context(), "b", make([]byte, 200)); fsys.CodeOf(err) != fsys.NoSpace {
		t.Fatalf("above the limit: %v", err)
	}
	equal(t, "what was refused", dump(t, s)[:4], "a=xx")
	fill(t, s, "a", "1", "b", strings.Repeat("y", 900))
}

// failing is a store that cannot be read.
type failing struct{ store.Updater }

var broken = fsys.E(fsys.Unavailable, "the disk is gone")

func (failing) Get(context.Context, string) ([]byte, error) { return nil, broken }
func (failing) List(context.Context, string, string, int) ([]store.Pair, error) {
	return nil, broken
}

func TestWhatCannotBeReadIsNotTakenForNothing(t *testing.T) {
	s := stage.New(failing{mem.New()}, 1000)
	for name, f := range map[string]func(tx store.Store) error{
		"get": func(tx store.Store) error {
			tx.Get(t.Context(), "a")
			return tx.Put(t.Context(), "a", nil)
		},
		"list": func(tx store.Store) error {
			tx.List(t.Context(), "", "", 0)
			return tx.Put(t.Context(), "a", nil)
		},
	} {
		if err := s.Update(t.Context(), f); fsys.CodeOf(err) != fsys.Unavailable {
			t.Errorf("%s: %v", name, err)
		}
	}
}
