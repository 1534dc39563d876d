package bolt_test

import (
	"path/filepath"
	"testing"

	"agent9/conformance"
	"agent9/store"
	"agent9/store/bolt"
)

func TestStore(t *testing.T) {
	conformance.TestStore(t, open, func(t *testing.T, s store.Updater) store.Updater {
		d := s.(*bolt.DB)
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		return openAt(t, d.Path())
	})
}

func open(t *testing.T) store.Updater { return openAt(t, filepath.Join(t.TempDir(), "db")) }

func openAt(t *testing.T, path string) *bolt.DB {
	t.Helper()
	d, err := bolt.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}
