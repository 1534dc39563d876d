package faulty_test

import (
	"errors"
	"path/filepath"
	"testing"

	"agent9/conformance"
	"agent9/fsys"
	"agent9/store"
	"agent9/store/bolt"
	"agent9/store/faulty"
	"agent9/store/mem"
)

func TestStore(t *testing.T) {
	conformance.TestStore(t, func(*testing.T) store.Updater { return faulty.New(mem.New()) }, nil)
}

func TestStoreOnDisk(t *testing.T) {
	conformance.TestStore(t, func(t *testing.T) store.Updater {
		db, err := bolt.Open(filepath.Join(t.TempDir(), "db"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		return faulty.New(db)
	}, nil)
}

var errDisk = fsys.E(fsys.Unavailable, "a bad disk")

// At each moment the fault is what the caller is told, and only Synced leaves
// a change; what follows a commit follows none of them.
func TestFaults(t *testing.T) {
	for _, at := range []faulty.Moment{faulty.Begin, faulty.Write, faulty.Synced} {
		s := faulty.New(mem.New())
		s.Inject(func(now faulty.Moment) error {
			if now == at {
				return errDisk
			}
			return nil
		})
		followed := false
		err := s.Update(t.Context(), func(tx store.Store) error {
			store.After(tx, func() { followed = true })
			return tx.Put(t.Context(), "key", []byte("value"))
		})
		if !errors.Is(err, fsys.Unavailable) || followed {
			t.Errorf("%s: %v, followed: %v", at, err, followed)
		}
		s.Inject(nil)
		_, err = s.Get(t.Context(), "key")
		if changed := err == nil; changed != (at == faulty.Synced) {
			t.Errorf("%s: changed: %v", at, changed)
		}
	}
	s := faulty.New(mem.New())
	s.Inject(func(faulty.Moment) error { return errDisk })
	_, get := s.Get(t.Context(), "key")
	_, list := s.List(t.Context(), "", "", 1)
	view := s.View(t.Context(), func(store.Store) error { return nil })
	for _, err := range []error{get, list, view} {
		if !errors.Is(err, fsys.Unavailable) {
			t.Error(err)
		}
	}
}
