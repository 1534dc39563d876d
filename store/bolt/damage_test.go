package bolt_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/bbolt"

	"agent9/fsys"
	"agent9/store"
	"agent9/store/bolt"
)

// where names a file of a key, as a daemon does.
func where(_ context.Context, _ store.Store, key string) string {
	return "the file " + key[:min(len(key), 7)]
}

var options = bolt.Options{Where: where}

// longKey makes trees deep: few fit in a page.
func longKey(i int) string { return fmt.Sprintf("dir%d/%04d/%s", i%3, i, strings.Repeat("k", 150)) }

// deep makes a database with pages of every kind, and returns its bytes and
// what is in it.
func deep(t *testing.T, r *rand.Rand) (whole []byte, want map[string]string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "deep.db")
	d := openAt(t, path)
	want = map[string]string{}
	for round := range 4 {
		err := d.Update(t.Context(), func(tx store.Store) error {
			for i := range 400 {
				key, value := longKey(i*4+round), make([]byte, r.IntN(120))
				if i%100 == 7 {
					value = make([]byte, 10_000)
				}
				for j := range value {
					value[j] = byte(r.Uint32())
				}
				want[key] = string(value)
				if err := tx.Put(t.Context(), key, value); err != nil {
					return err
				}
				if gone := longKey(i * 2); i%5 == 0 && round == 3 {
					delete(want, gone)
					if err := tx.Delete(t.Context(), gone); err != nil {
						return err
					}
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return whole, want
}

// answers asks d for everything, and returns how many answers were errors. An
// answer that is neither right nor an error that says what is damaged fails t.
func answers(t *testing.T, d *bolt.DB, want map[string]string, what string) (refused int) {
	t.Helper()
	wrong := func(of string, err error) {
		if err == nil {
			t.Errorf("%s: a wrong answer: %s", what, of)
			return
		}
		refused++
		if !errors.Is(err, store.ErrDamaged) && fsys.CodeOf(err) != fsys.Unavailable {
			t.Errorf("%s: %s: %v", what, of, err)
		}
		if errors.Is(err, store.ErrDamaged) && !strings.Contains(err.Error(), "the file ") {
			t.Errorf("%s: %s: the error names no file: %v", what, of, err)
		}
	}
	for i := range 1700 {
		key := longKey(i)
		value, err := d.Get(t.Context(), key)
		if v, ok := want[key]; ok && (err != nil || string(value) != v) {
			wrong("get "+key[:9], err)
		} else if !ok && (err == nil || fsys.CodeOf(err) != fsys.NotExist) {
			if err == nil {
				t.Errorf("%s: %s is there", what, key[:9])
			} else {
				wrong("get "+key[:9], err)
			}
		}
	}
	for _, prefix := range []string{"", "dir1/", "dir2/1", "dir3"} {
		var keys, all []string
		for k := range want {
			if strings.HasPrefix(k, prefix) {
				all = append(all, k)
			}
		}
		slices.Sort(all)
		var err error
		for p, e := range store.All(t.Context(), d, prefix) {
			if err = e; err == nil {
				keys = append(keys, p.Key)
				if want[p.Key] != string(p.Value) {
					t.Errorf("%s: a wrong value in a list", what)
				}
			}
		}
		if err != nil || !slices.Equal(keys, all) {
			wrong(fmt.Sprintf("list %q: %d of %d", prefix, len(keys), len(all)), err)
		}
	}
	return refused
}

// A byte of the file that is another one is an error of what it belongs to, or
// of the whole file, and never an answer; and Probe finds it.
func TestChangedBytes(t *testing.T) {
	seed := uint64(1)
	r := rand.New(rand.NewPCG(seed, 0))
	whole, want := deep(t, r)
	path := filepath.Join(t.TempDir(), "changed.db")
	rounds := 400
	if testing.Short() {
		rounds = 60
	}
	refused, partly, silent := 0, 0, 0
	for range rounds {
		at, by := r.IntN(len(whole)), byte(1+r.IntN(255))
		if r.IntN(3) == 0 { // the beginning of a page
			at = at/os.Getpagesize()*os.Getpagesize() + r.IntN(120)
		}
		what := fmt.Sprintf("byte %d of page %d changed by %#x", at%os.Getpagesize(), at/os.Getpagesize(), by)
		content := bytes.Clone(whole)
		content[at] ^= by
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		d, err := bolt.OpenWith(path, options)
		if err != nil {
			refused++
			if !strings.Contains(err.Error(), path) {
				t.Errorf("%s: %v", what, err)
			}
			continue
		}
		errs, found := answers(t, d, want, what), 0
		if err := d.Probe(t.Context(), func(key, _ string) { found++ }); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		switch {
		case errs > 0 && found == 0:
			t.Errorf("%s: %d answers were errors, and Probe found nothing", what, errs)
		case errs > 0:
			partly++
			if errs > len(want)/10 {
				t.Errorf("%s: %d of %d answers were errors", what, errs, len(want))
			}
		default:
			silent++
		}
		d.Close()
	}
	t.Logf("of %d changed bytes %d were an error of the file, %d of what they belong to, and %d are of no meaning", rounds, refused, partly, silent)
	if refused == 0 || partly == 0 {
		t.Error("not every kind of damage was met")
	}
}

// edit changes a database as another program could.
func edit(t *testing.T, path string, f func(sealed, plain *bbolt.Bucket) error) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error { return f(tx.Bucket([]byte("sealed")), tx.Bucket([]byte("data"))) })
	if cerr := db.Close(); err != nil || cerr != nil {
		t.Fatal(err, cerr)
	}
}

func TestSwappedValues(t *testing.T) {
	path, _ := filled(t)
	edit(t, path, func(sealed, _ *bbolt.Bucket) error {
		a, b := bytes.Clone(sealed.Get([]byte("key 1000"))), bytes.Clone(sealed.Get([]byte("key 1001")))
		if a == nil || b == nil {
			return errors.New("the test does not know the keys")
		}
		return errors.Join(sealed.Put([]byte("key 1000"), b), sealed.Put([]byte("key 1001"), a))
	})
	d := openAt(t, path)
	for _, key := range []string{"key 1000", "key 1001"} {
		if v, err := d.Get(t.Context(), key); !errors.Is(err, store.ErrDamaged) {
			t.Errorf("%s: %q, %v; want that it is damaged", key, v, err)
		}
	}
	if _, err := d.Get(t.Context(), "key 1002"); err != nil {
		t.Errorf("the rest: %v", err)
	}
	err := d.Update(t.Context(), func(tx store.Store) error {
		tx.Get(t.Context(), "key 1000") // whose error is not looked at
		return tx.Put(t.Context(), "after", nil)
	})
	if !errors.Is(err, store.ErrDamaged) {
		t.Errorf("a transaction on what is damaged: %v", err)
	}
	if err := d.Put(t.Context(), "key 1000", []byte("anew")); err != nil {
		t.Errorf("what is damaged is written anew: %v", err)
	}
	if err := d.Delete(t.Context(), "key 1001"); err != nil {
		t.Errorf("what is damaged is deleted: %v", err)
	}
	if err := d.Probe(t.Context(), func(key, what string) { t.Error(key, what) }); err != nil {
		t.Error(err)
	}
}

// Who asks for it gets the rest of a listing, and a transaction that goes on; nobody
// is given what is damaged.
func TestForgiving(t *testing.T) {
	path, _ := filled(t)
	edit(t, path, func(sealed, _ *bbolt.Bucket) error {
		v := bytes.Clone(sealed.Get([]byte("key 1001")))
		v[len(v)-1] ^= 1
		return sealed.Put([]byte("key 1001"), v)
	})
	d := openAt(t, path)
	sub := store.Sub(d, "key ")
	listed := func(what string, s store.Store) {
		t.Helper()
		var whole, damaged int
		for p, err := range store.All(t.Context(), store.Forgiving(s), "1") {
			switch {
			case err != nil:
				t.Fatal(what, err)
			case p.Value == nil && p.Key == "1001":
				damaged++
			case p.Value != nil:
				whole++
			}
		}
		if whole < 2 || damaged != 1 {
			t.Errorf("%s: %d whole, %d damaged", what, whole, damaged)
		}
		if v, err := store.Forgiving(s).Get(t.Context(), "1001"); !store.IsDamaged(err) {
			t.Errorf("%s: got %q, %v", what, v, err)
		}
	}
	listed("the store", sub)
	if err := sub.View(t.Context(), func(s store.Store) error { listed("a view", s); return nil }); err != nil {
		t.Error(err)
	}
	err := sub.Update(t.Context(), func(tx store.Store) error {
		listed("a transaction", tx)
		return tx.Put(t.Context(), "after", nil)
	})
	if err != nil {
		t.Error(err)
	}
	err = sub.Update(t.Context(), func(tx store.Store) error {
		listed("a transaction", tx)
		tx.Get(t.Context(), "1001") // whose error is not looked at
		return nil
	})
	if !store.IsDamaged(err) {
		t.Errorf("a transaction that reads what is damaged: %v", err)
	}
	if err := sub.Update(t.Context(), func(tx store.Store) error { return store.DeleteAll(t.Context(), tx, "1") }); err != nil {
		t.Error(err)
	}
	if page, err := sub.List(t.Context(), "1", "", 0); err != nil || len(page) != 0 {
		t.Errorf("after DeleteAll: %q, %v", page, err)
	}
}

// A page that leads to itself would end the process.
func TestPagesInACircle(t *testing.T) {
	whole, _ := deep(t, rand.New(rand.NewPCG(2, 0)))
	page, circles := os.Getpagesize(), 0
	path := filepath.Join(t.TempDir(), "circle.db")
	for no := 2; no < len(whole)/page; no++ {
		b := bytes.Clone(whole)
		head := b[no*page:]
		if binary.LittleEndian.Uint64(head) != uint64(no) || head[8] != 1 {
			continue
		}
		binary.LittleEndian.PutUint64(head[16+8:], uint64(no))
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, opt := range []bolt.Options{{}, {ReadOnly: true}} {
			d, err := bolt.OpenWith(path, opt)
			if err == nil {
				d.Close() // a page that is not in use
				continue
			}
			circles++
			if fsys.CodeOf(err) != fsys.Unavailable || !strings.Contains(err.Error(), fmt.Sprint("page ", no)) {
				t.Errorf("page %d: %v", no, err)
			}
		}
	}
	if circles == 0 {
		t.Error("no page was in use")
	}
}

func TestACopyIsVerified(t *testing.T) {
	path, _ := filled(t)
	d, err := bolt.OpenWith(path, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	var copied bytes.Buffer
	if err := d.Copy(t.Context(), &copied); err != nil {
		t.Fatal(err)
	}
	if err := d.Verify(t.Context(), bytes.NewReader(copied.Bytes())); err != nil {
		t.Errorf("a whole copy: %v", err)
	}
	b := copied.Bytes()
	at := bytes.LastIndex(b, []byte("key 1000\x00\x00\x00"))
	b[at+8] ^= 1
	if err := d.Verify(t.Context(), bytes.NewReader(b)); !errors.Is(err, store.ErrDamaged) || !strings.Contains(err.Error(), "the file key 100") {
		t.Errorf("a copy with another byte: %v", err)
	}
	if err := d.Verify(t.Context(), bytes.NewReader(b[:len(b)/2])); !errors.Is(err, store.ErrDamaged) {
		t.Errorf("half a copy: %v", err)
	}
}

// unsealed makes a database as it was before there were seals, but for some keys.
func unsealed(t *testing.T, n int) (path string, want map[string]string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "old.db")
	openAt(t, path).Close()
	want = map[string]string{}
	edit(t, path, func(_, plain *bbolt.Bucket) error {
		for i := range n {
			key, value := fmt.Sprintf("k/%05d", i*2), strings.Repeat(fmt.Sprint(i, " "), 1500)
			want[key] = value
			if err := plain.Put([]byte(key), []byte(value)); err != nil {
				return err
			}
		}
		return nil
	})
	return path, want
}

func holds(t *testing.T, d *bolt.DB, want map[string]string) {
	t.Helper()
	got := map[string]string{}
	last := ""
	for p, err := range store.All(t.Context(), d, "k/") {
		if err != nil {
			t.Fatal(err)
		}
		if p.Key <= last {
			t.Errorf("%q comes after %q", p.Key, last)
		}
		last, got[p.Key] = p.Key, string(p.Value)
		if v, err := d.Get(t.Context(), p.Key); err != nil || string(v) != got[p.Key] {
			t.Errorf("%s: get is not what list says: %v", p.Key, err)
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("there are %d records, and they are not the %d that were stored", len(got), len(want))
	}
}

// What was stored before there were seals is read, is sealed when it is
// written, and all of it by Reseal, which can be interrupted.
func TestReseal(t *testing.T) {
	path, want := unsealed(t, 2000)
	d := openAt(t, path)
	holds(t, d, want)
	for _, key := range []string{"k/00000", "k/00001", "k/01000", "k/09999"} {
		want[key] = "anew"
		if err := d.Put(t.Context(), key, []byte("anew")); err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range []string{"k/00002", "k/01001", "k/03998"} {
		delete(want, key)
		if err := d.Delete(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	holds(t, d, want)
	ctx, cancel := context.WithCancel(t.Context())
	n, err := d.Reseal(endAfter{ctx, cancel, new(int)})
	if n == 0 || n >= 1996 || !errors.Is(err, context.Canceled) {
		t.Fatalf("%d were sealed until it was interrupted: %v", n, err)
	}
	holds(t, d, want)
	d.Close()
	d = openAt(t, path)
	holds(t, d, want)
	more, err := d.Reseal(t.Context())
	if err != nil || n+more != 1996 {
		t.Errorf("%d and then %d were sealed: %v", n, more, err)
	}
	holds(t, d, want)
	d.Close()
	edit(t, path, func(sealed, plain *bbolt.Bucket) error {
		if k, _ := plain.Cursor().First(); k != nil {
			t.Errorf("%q is not sealed", k)
		}
		return nil
	})
	holds(t, openAt(t, path), want)
}

// endAfter ends when it was asked twice.
type endAfter struct {
	context.Context
	cancel func()
	asked  *int
}

func (e endAfter) Err() error {
	if *e.asked++; *e.asked == 2 {
		e.cancel()
	}
	return e.Context.Err()
}
