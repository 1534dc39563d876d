package conformance

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"agent9/fsys"
	"agent9/store"
)

func storeAllOrNothing(t *testing.T, s store.Updater) {
	ctx := t.Context()
	put(t, s, "a", "b")
	mine := errors.New("mine")
	err := s.Update(ctx, func(tx store.Store) error {
		put(t, tx, "new")
		must(t, tx.Put(ctx, "a", []byte("changed")))
		must(t, tx.Delete(ctx, "b"))
		return mine
	})
	if !errors.Is(err, mine) {
		t.Errorf("Update: got error %v, want the one that f returned", err)
	}
	wantValue(t, s, "a", "value of a")
	wantKeys(t, s, "", "", 10, "a b")
	must(t, s.Update(ctx, func(tx store.Store) error {
		put(t, tx, "new")
		must(t, tx.Put(ctx, "a", []byte("changed")))
		return tx.Delete(ctx, "b")
	}))
	wantValue(t, s, "a", "changed")
	wantKeys(t, s, "", "", 10, "a new")
}

// storeGive has a value changed as soon as it may be.
func storeGive(t *testing.T, s store.Updater) {
	ctx := t.Context()
	for _, in := range []store.Updater{s, store.Sub(s, "part/")} {
		value := []byte("given")
		must(t, in.Update(ctx, func(tx store.Store) error {
			if err := store.Give(ctx, tx, "k", value); err != nil {
				return err
			}
			wantValue(t, tx, "k", "given")
			return nil
		}))
		copy(value, "taken")
		wantValue(t, in, "k", "given")
		err := in.Update(ctx, func(tx store.Store) error { return store.Give(ctx, tx, "", nil) })
		wantCode(t, "Give without a key", err, fsys.Invalid)
		must(t, in.Update(ctx, func(tx store.Store) error { return store.Give(ctx, tx, "k", nil) }))
		wantValue(t, in, "k", "")
	}
	both := []byte("first second") // what lies behind what is given is not the store's
	must(t, s.Update(ctx, func(tx store.Store) error {
		if err := store.Give(ctx, tx, "first", both[:5]); err != nil {
			return err
		}
		return store.Give(ctx, tx, "second", both[5:])
	}))
	wantValue(t, s, "first", "first")
	wantValue(t, s, "second", " second")
	must(t, store.Give(ctx, s, "outside", []byte("put")))
	wantValue(t, s, "outside", "put")
}

func storeOwnChanges(t *testing.T, s store.Updater) {
	ctx := t.Context()
	put(t, s, "b", "d", "f")
	must(t, s.Update(ctx, func(tx store.Store) error {
		put(t, tx, "a", "c", "e", "g")
		must(t, tx.Put(ctx, "d", []byte("changed")))
		must(t, tx.Delete(ctx, "b"))
		must(t, tx.Delete(ctx, "e"))
		must(t, tx.Delete(ctx, "none"))
		wantNone(t, tx, "b")
		wantNone(t, tx, "e")
		wantValue(t, tx, "d", "changed")
		wantValue(t, tx, "f", "value of f")
		wantKeys(t, tx, "", "", 10, "a c d f g")
		wantKeys(t, tx, "", "a", 2, "c d")
		wantKeys(t, tx, "", "d", 2, "f g")
		wantKeys(t, tx, "g", "", 2, "g")
		put(t, tx, "b") // deleted and made again
		wantKeys(t, tx, "", "", 3, "a b c")
		value, err := tx.Get(ctx, "c")
		must(t, err)
		copy(value, "XXXX")
		return nil
	}))
	wantValue(t, s, "c", "value of c")
	wantKeys(t, s, "", "", 10, "a b c d f g")
}

func storeIsolation(t *testing.T, s store.Updater) {
	ctx := t.Context()
	put(t, s, "a")
	looked := make(chan struct{})
	must(t, s.Update(ctx, func(tx store.Store) error {
		must(t, tx.Put(ctx, "a", []byte("changed")))
		put(t, tx, "b")
		go func() { // a reader does not wait for a transaction
			defer close(looked)
			wantValue(t, s, "a", "value of a")
			wantKeys(t, s, "", "", 10, "a")
		}()
		<-looked
		return nil
	}))
	wantKeys(t, s, "", "", 10, "a b")
}

func storeSerial(t *testing.T, s store.Updater) {
	ctx := t.Context()
	const writers, rounds = 16, 10
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for range rounds {
				if err := s.Update(ctx, increment(ctx)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	wantValue(t, s, "n", fmt.Sprint(writers*rounds))
}

func increment(ctx context.Context) func(store.Store) error {
	return func(tx store.Store) error {
		n, err := store.GetJSON[int](ctx, tx, "n")
		if err != nil && fsys.CodeOf(err) != fsys.NotExist {
			return err
		}
		return tx.Put(ctx, "n", fmt.Append(nil, n+1))
	}
}

func storeFailureAmongMany(t *testing.T, s store.Updater) {
	ctx := t.Context()
	const writers = 30
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			err := s.Update(ctx, func(tx store.Store) error {
				if err := increment(ctx)(tx); err != nil {
					return err
				}
				put(t, tx, fmt.Sprintf("w/%02d", i))
				if i%3 == 0 {
					return fsys.E(fsys.Busy, "no")
				}
				return nil
			})
			if (err != nil) != (i%3 == 0) {
				t.Errorf("writer %d: got error %v", i, err)
			}
		})
	}
	wg.Wait()
	wantValue(t, s, "n", fmt.Sprint(writers-writers/3))
	for i := range writers {
		if key := fmt.Sprintf("w/%02d", i); i%3 == 0 {
			wantNone(t, s, key)
		} else {
			wantValue(t, s, key, "value of "+key)
		}
	}
}

func storePanic(t *testing.T, s store.Updater) {
	ctx := t.Context()
	err := s.Update(ctx, func(tx store.Store) error {
		put(t, tx, "a")
		panic("on purpose, by a test")
	})
	wantCode(t, "Update that panics", err, fsys.Internal)
	wantNone(t, s, "a")
	put(t, s, "b")
	must(t, s.Update(ctx, func(tx store.Store) error {
		put(t, tx, "c")
		store.After(tx, func() { panic("on purpose, by a test") })
		return nil
	}))
	put(t, s, "d")
	wantKeys(t, s, "", "", 10, "b c d")
}

func storeEndedContext(t *testing.T, s store.Updater) {
	ctx, cancel := context.WithCancel(t.Context())
	running, finish, ended := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		ended <- s.Update(ctx, func(tx store.Store) error {
			put(t, tx, "begun")
			close(running)
			<-finish
			return nil
		})
	}()
	<-running
	go func() {
		ended <- s.Update(ctx, func(tx store.Store) error {
			put(t, tx, "queued")
			return nil
		})
	}()
	cancel()
	// Whoever waits for its turn is told at once; whoever has begun is told
	// how it ended.
	wantCode(t, "Update that waited", <-ended, fsys.Canceled)
	close(finish)
	must(t, <-ended)
	wantCode(t, "Put", s.Put(ctx, "late", nil), fsys.Canceled)
	put(t, s, "next")
	wantKeys(t, s, "", "", 10, "begun next")
}

func storeUsedAfterEnd(t *testing.T, s store.Updater) {
	ctx := t.Context()
	var kept, view store.Store
	must(t, s.Update(ctx, func(tx store.Store) error {
		kept, view = tx, store.In(tx, store.Sub(s, "v/"))
		return nil
	}))
	for _, tx := range []store.Store{kept, view} {
		_, err := tx.Get(ctx, "a")
		wantCode(t, "Get", err, fsys.Internal)
		wantCode(t, "Put", tx.Put(ctx, "a", nil), fsys.Internal)
		wantCode(t, "Delete", tx.Delete(ctx, "a"), fsys.Internal)
		_, err = tx.List(ctx, "", "", 1)
		wantCode(t, "List", err, fsys.Internal)
	}
}

func storeAfter(t *testing.T, s store.Updater) {
	ctx := t.Context()
	var got []string
	note := func(what string) func() { return func() { got = append(got, what) } }
	s.Update(ctx, func(tx store.Store) error {
		store.After(tx, note("undone"))
		return fsys.Busy
	})
	must(t, s.Update(ctx, func(tx store.Store) error {
		view := store.In(tx, store.Sub(s, "v/"))
		put(t, view, "a")
		store.After(tx, note("1"))
		store.After(view, func() {
			note("2")()
			wantValue(t, s, "v/a", "value of a")
		})
		store.After(tx, note("3"))
		note("0")()
		return nil
	}))
	store.After(s, note("at once"))
	if want := "0 1 2 3 at once"; strings.Join(got, " ") != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func storeAfterOrder(t *testing.T, s store.Updater) {
	ctx := t.Context()
	const writers = 30
	var did, followed []int
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			err := s.Update(ctx, func(tx store.Store) error {
				did = append(did, i) // one transaction at a time
				store.After(tx, func() { followed = append(followed, i) })
				return increment(ctx)(tx)
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if len(did) != writers || fmt.Sprint(did) != fmt.Sprint(followed) {
		t.Errorf("transactions ran as %v, what followed them as %v", did, followed)
	}
}

func storeSub(t *testing.T, s store.Updater) {
	ctx := t.Context()
	a, ab := store.Sub(s, "a/"), store.Sub(store.Sub(s, "a/"), "b/")
	put(t, s, "a/", "a/0", "a/b/0", "b/0", "a", "a0")
	put(t, ab, "1")
	wantValue(t, s, "a/b/1", "value of 1")
	wantValue(t, a, "b/1", "value of 1")
	wantKeys(t, a, "", "", 10, "0 b/0 b/1")
	wantKeys(t, ab, "", "0", 10, "1")
	wantKeys(t, ab, "0", "", 10, "0")
	must(t, ab.Delete(ctx, "0"))
	must(t, ab.Delete(ctx, ""))
	must(t, ab.Update(ctx, func(tx store.Store) error {
		put(t, tx, "2")
		wantKeys(t, tx, "", "", 10, "1 2")
		return nil
	}))
	wantCode(t, "Update", a.Update(ctx, func(tx store.Store) error {
		put(t, tx, "3")
		return fsys.Busy
	}), fsys.Busy)
	wantKeys(t, s, "", "", 10, "a a/ a/0 a/b/1 a/b/2 a0 b/0")
}

func storeIn(t *testing.T, s store.Updater) {
	ctx := t.Context()
	a, b := store.Sub(s, "a/"), store.Sub(s, "b/")
	change := func(end error) error {
		return a.Update(ctx, func(tx store.Store) error {
			put(t, tx, "1")
			put(t, store.In(tx, b), "1")
			put(t, store.In(tx, s), "top")
			wantKeys(t, store.In(store.In(tx, b), s), "", "", 10, "a/1 b/1 top")
			wantKeys(t, store.In(tx, tx), "", "", 10, "1")
			return end
		})
	}
	wantCode(t, "Update", change(fsys.Busy), fsys.Busy)
	wantKeys(t, s, "", "", 10, "")
	must(t, change(nil))
	wantKeys(t, s, "", "", 10, "a/1 b/1 top")
	_, err := store.In(s, a).Get(ctx, "1")
	wantCode(t, "In what is no transaction", err, fsys.Internal)
}

func storeInAnother(t *testing.T, s, other store.Updater) {
	ctx := t.Context()
	for _, theirs := range []store.Store{other, store.Sub(other, "a/")} {
		must(t, s.Update(ctx, func(tx store.Store) error {
			wrong := store.In(tx, theirs)
			_, err := wrong.Get(ctx, "a")
			wantCode(t, "Get", err, fsys.Internal)
			wantCode(t, "Put", wrong.Put(ctx, "a", nil), fsys.Internal)
			wantCode(t, "Delete", wrong.Delete(ctx, "a"), fsys.Internal)
			_, err = wrong.List(ctx, "", "", 1)
			wantCode(t, "List", err, fsys.Internal)
			store.After(wrong, func() { t.Error("something followed a mistake") })
			return nil
		}))
	}
	wantKeys(t, other, "", "", 10, "")
}
