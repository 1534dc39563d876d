package bolt_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"agent9/store"
	"agent9/store/bolt"
)

// withFreePages returns a database from which much was deleted.
func withFreePages(t testing.TB, path string, pages int) *bolt.DB {
	t.Helper()
	d, err := bolt.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	value := make([]byte, 64<<10)
	keys := pages * os.Getpagesize() / len(value)
	each := func(f func(tx store.Store, key string) error) {
		t.Helper()
		err := d.Update(t.Context(), func(tx store.Store) error {
			for i := range keys {
				if err := f(tx, fmt.Sprintf("large/%06d", i)); err != nil {
					return err
				}
			}
			return tx.Put(t.Context(), "small", nil)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	each(func(tx store.Store, key string) error { return tx.Put(t.Context(), key, value) })
	each(func(tx store.Store, key string) error { return tx.Delete(t.Context(), key) })
	if err := d.Put(t.Context(), "small", nil); err != nil { // now they are free
		t.Fatal(err)
	}
	return d
}

// lists reports whether the file at path has a list of its free pages, as the
// newer of its two meta pages says.
func lists(t *testing.T, path string) bool {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	page := os.Getpagesize()
	const freelist, txid = 48, 64
	newest, has := uint64(0), false
	for _, meta := range [][]byte{b[:page], b[page : 2*page]} {
		if id := binary.NativeEndian.Uint64(meta[txid:]); id >= newest {
			newest, has = id, binary.NativeEndian.Uint64(meta[freelist:]) != 1<<64-1
		}
	}
	return has
}

func TestWhatWasDeletedCostsNothing(t *testing.T) {
	few, many := bolt.Open, func(path string) (*bolt.DB, error) { return withFreePages(t, path, 20_000), nil }
	var written []int
	for i, open := range []func(string) (*bolt.DB, error){few, many} {
		d, err := open(filepath.Join(t.TempDir(), fmt.Sprint(i)))
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		before := d.PagesWritten()
		for n := range 10 {
			if err := d.Put(t.Context(), "small", []byte{byte(n)}); err != nil {
				t.Fatal(err)
			}
		}
		written = append(written, d.PagesWritten()-before)
	}
	if written[1] > 2*written[0] {
		t.Errorf("ten commits wrote %d pages, and %d when 20,000 were free", written[0], written[1])
	}
}

func TestFreePagesAreFoundAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	d := withFreePages(t, path, 5000)
	if lists(t, path) {
		t.Fatal("5,000 free pages were listed with each commit")
	}
	crashed := filepath.Join(t.TempDir(), "db")
	b, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(crashed, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	only, err := bolt.OpenWith(crashed, bolt.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := only.Get(t.Context(), "small"); err != nil {
		t.Error(err)
	}
	if err := only.Probe(t.Context(), func(_, what string) { t.Error(what) }); err != nil {
		t.Error(err)
	}
	if err := only.Close(); err != nil {
		t.Error(err)
	}
	free := d.FreePages()
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if !lists(t, path) {
		t.Error("no list after an orderly end")
	}
	for _, p := range []string{path, crashed} {
		d := openAt(t, p)
		if got := d.FreePages(); got < free-100 || got > free+100 {
			t.Errorf("%d pages are free after opening, %d were before", got, free)
		}
		if _, err := d.Get(t.Context(), "small"); err != nil {
			t.Error(err)
		}
		if err := d.Probe(t.Context(), func(_, what string) { t.Error(what) }); err != nil {
			t.Error(err)
		}
		if err := d.Put(t.Context(), "more", make([]byte, 1<<20)); err != nil {
			t.Error(err)
		}
		if info, err := os.Stat(p); err != nil || info.Size() > int64(len(b)) {
			t.Errorf("the file has grown to %d bytes, of %d, %v", info.Size(), len(b), err)
		}
	}
}

func TestFewFreePagesAreListed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	withFreePages(t, path, 100)
	if !lists(t, path) {
		t.Error("100 free pages were not listed")
	}
}

func BenchmarkUpdateAfterDeletion(b *testing.B) {
	for _, pages := range []int{0, 1000, 100_000} {
		b.Run(fmt.Sprintf("free=%d", pages), func(b *testing.B) {
			d := withFreePages(b, filepath.Join(b.TempDir(), "db"), pages)
			for b.Loop() {
				if err := d.Put(b.Context(), "small", nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
