package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"agent9/fsys"
	"agent9/store"
)

// TestStore checks that a driver keeps the contract of store.Updater. open
// returns an empty store, which the test's Cleanup ends. reopen ends s in
// order and opens the same data again; it is nil for a driver that keeps
// nothing.
func TestStore(t *testing.T, open func(t *testing.T) store.Updater, reopen func(t *testing.T, s store.Updater) store.Updater) {
	for _, c := range []struct {
		name string
		test func(t *testing.T, s store.Updater)
	}{
		{"values", storeValues},
		{"bad keys", storeBadKeys},
		{"order", storeOrder},
		{"pages", storePages},
		{"all or nothing", storeAllOrNothing},
		{"a transaction sees its own changes", storeOwnChanges},
		{"others see nothing before the end", storeIsolation},
		{"one at a time", storeSerial},
		{"a failure among many", storeFailureAmongMany},
		{"panic", storePanic},
		{"ended context", storeEndedContext},
		{"after the end", storeUsedAfterEnd},
		{"after", storeAfter},
		{"after, in order", storeAfterOrder},
		{"sub", storeSub},
		{"in", storeIn},
		{"log", storeLog},
		{"log undone", storeLogUndone},
		{"log buffered", storeLogBuffered},
		{"log dropped", storeLogDropped},
		{"closed", storeClosed},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, open(t)) })
	}
	t.Run("in another database", func(t *testing.T) { storeInAnother(t, open(t), open(t)) })
	if reopen != nil {
		t.Run("reopen", func(t *testing.T) { storeReopen(t, open(t), reopen) })
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantCode(t *testing.T, what string, err error, want fsys.Code) {
	t.Helper()
	if err == nil || fsys.CodeOf(err) != want {
		t.Errorf("%s: got error %v, want code %v", what, err, want)
	}
}

func wantValue(t *testing.T, s store.Store, key, want string) {
	t.Helper()
	got, err := s.Get(t.Context(), key)
	if err != nil || string(got) != want {
		t.Errorf("Get(%q): got %q, %v; want %q", key, got, err, want)
	}
}

func wantNone(t *testing.T, s store.Store, key string) {
	t.Helper()
	_, err := s.Get(t.Context(), key)
	wantCode(t, fmt.Sprintf("Get(%q)", key), err, fsys.NotExist)
}

func wantKeys(t *testing.T, s store.Store, prefix, after string, n int, want string) {
	t.Helper()
	page, err := s.List(t.Context(), prefix, after, n)
	must(t, err)
	if got := keysOf(page); got != want {
		t.Errorf("List(%q, %q, %d): got %q, want %q", prefix, after, n, got, want)
	}
}

func keysOf(page []store.Pair) string {
	var keys []string
	for _, p := range page {
		keys = append(keys, p.Key)
	}
	return strings.Join(keys, " ")
}

func put(t *testing.T, s store.Store, keys ...string) {
	t.Helper()
	for _, key := range keys {
		must(t, s.Put(t.Context(), key, []byte("value of "+key)))
	}
}

func storeValues(t *testing.T, s store.Updater) {
	ctx := t.Context()
	wantNone(t, s, "a")
	for _, value := range []string{"", "x", "\x00\xff\n", strings.Repeat("long", 100_000)} {
		b := []byte(value)
		must(t, s.Put(ctx, "a", b))
		for i := range b {
			b[i] = '!' // what was given is the caller's again
		}
		wantValue(t, s, "a", value)
	}
	must(t, s.Put(ctx, "a", []byte("mine")))
	got, err := s.Get(ctx, "a")
	must(t, err)
	copy(got, "XXXX")
	page, err := s.List(ctx, "a", "", 1)
	must(t, err)
	copy(page[0].Value, "YYYY")
	wantValue(t, s, "a", "mine")
	must(t, s.Delete(ctx, "a"))
	must(t, s.Delete(ctx, "a"))
	wantNone(t, s, "a")
}

func storeBadKeys(t *testing.T, s store.Updater) {
	ctx := t.Context()
	put(t, s, strings.Repeat("k", store.MaxKey))
	wantNone(t, s, "")
	for _, key := range []string{"", strings.Repeat("k", store.MaxKey+1)} {
		wantCode(t, "Put", s.Put(ctx, key, nil), fsys.Invalid)
		wantCode(t, "Put in a view", store.Sub(s, "v/").Put(ctx, key, nil), fsys.Invalid)
	}
	wantCode(t, "Put of a value too large", s.Put(ctx, "a", make([]byte, store.MaxValue+1)), fsys.TooLarge)
	must(t, s.Delete(ctx, ""))
}

func storeOrder(t *testing.T, s store.Updater) {
	put(t, s, "b", "a/2", "a", "a/10", "\xff\xff", "\xff", "a/", "ab", "B", "\x00")
	all := "\x00 B a a/ a/10 a/2 ab b \xff \xff\xff"
	wantKeys(t, s, "", "", 100, all)
	wantKeys(t, s, "", "", 0, all)
	wantKeys(t, s, "a", "", 100, "a a/ a/10 a/2 ab")
	wantKeys(t, s, "a/", "", 100, "a/ a/10 a/2")
	wantKeys(t, s, "a/", "a/", 100, "a/10 a/2")
	wantKeys(t, s, "a/", "a/10", 100, "a/2")
	wantKeys(t, s, "a/", "a/1", 100, "a/10 a/2")
	wantKeys(t, s, "a/", "a/2", 100, "")
	wantKeys(t, s, "a/", "z", 100, "")
	wantKeys(t, s, "\xff", "", 100, "\xff \xff\xff")
	wantKeys(t, s, "c", "", 100, "")
}

func storePages(t *testing.T, s store.Updater) {
	ctx := t.Context()
	const many = 1000
	must(t, s.Update(ctx, func(tx store.Store) error {
		for i := range many {
			if err := tx.Put(ctx, fmt.Sprintf("p/%04d", i), bytes.Repeat([]byte{'v'}, 3000)); err != nil {
				return err
			}
		}
		return nil
	}))
	put(t, s, "o", "q")
	for _, n := range []int{0, -1, 1, 7, many, many + 1} {
		got, after := 0, ""
		for {
			page, err := s.List(ctx, "p/", after, n)
			must(t, err)
			for _, p := range page {
				if want := fmt.Sprintf("p/%04d", got); p.Key != want || len(p.Value) != 3000 {
					t.Fatalf("pages of %d: got %s with %d bytes, want %s with 3000", n, p.Key, len(p.Value), want)
				}
				got++
			}
			if len(page) == 0 || n > 0 && len(page) < n {
				break
			}
			after = page[len(page)-1].Key
		}
		if got != many {
			t.Errorf("pages of %d: got %d pairs, want %d", n, got, many)
		}
	}
	got := 0
	for p, err := range store.All(ctx, s, "p/") {
		must(t, err)
		if got++; got%2 == 0 {
			must(t, s.Delete(ctx, p.Key)) // while the loop goes on
		}
		if got == 20 {
			break
		}
	}
	left := 0
	for _, err := range store.All(ctx, s, "p/") {
		must(t, err)
		left++
	}
	if left != many-10 {
		t.Errorf("All: got %d pairs after 10 were deleted, want %d", left, many-10)
	}
}

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

func storeClosed(t *testing.T, s store.Updater) {
	c, ok := s.(io.Closer)
	if !ok {
		t.Fatal("a store can be closed")
	}
	ctx := t.Context()
	put(t, s, "a")
	must(t, c.Close())
	_, err := s.Get(ctx, "a")
	wantCode(t, "Get", err, fsys.Unavailable)
	_, err = s.List(ctx, "", "", 1)
	wantCode(t, "List", err, fsys.Unavailable)
	wantCode(t, "Put", s.Put(ctx, "a", nil), fsys.Unavailable)
	wantCode(t, "Delete", s.Delete(ctx, "a"), fsys.Unavailable)
	wantCode(t, "Update", s.Update(ctx, func(store.Store) error { return nil }), fsys.Unavailable)
	must(t, c.Close())
}

func storeReopen(t *testing.T, s store.Updater, reopen func(t *testing.T, s store.Updater) store.Updater) {
	ctx := t.Context()
	put(t, s, "a", "b", "c")
	must(t, s.Delete(ctx, "b"))
	s.Update(ctx, func(tx store.Store) error {
		put(t, tx, "undone")
		return fsys.Busy
	})
	l := openLog(t, s)
	appendLog(t, s, l, "one\n", "two\n")
	must(t, l.Buffer([]byte("three\n")))
	must(t, l.Flush(ctx))

	s = reopen(t, s)
	wantKeys(t, s, "", "", 2, "a c")
	wantValue(t, s, "c", "value of c")
	l = openLog(t, s)
	appendLog(t, s, l, "four\n")
	wantLog(t, l, "one\ntwo\nthree\nfour\n")
	put(t, s, "d")
	wantKeys(t, s, "", "", 3, "a c d")
}
