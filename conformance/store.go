package conformance

import (
	"bytes"
	"fmt"
	"io"
	"strings"
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
		{"given values", storeGive},
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
		{"view", storeView},
		{"view of what grows", storeViewGrowing},
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

	type pair struct{ A, B int }
	must(t, store.PutJSON(ctx, s, "json", pair{1, 2}))
	if got, err := store.GetJSON[pair](ctx, s, "json"); got != (pair{1, 2}) || err != nil {
		t.Errorf("GetJSON: got %v, %v", got, err)
	}
	_, err = store.GetJSON[int](ctx, s, "json")
	wantCode(t, "GetJSON of something else", err, fsys.Internal)
	_, err = store.GetJSON[int](ctx, s, "none")
	wantCode(t, "GetJSON of nothing", err, fsys.NotExist)
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
