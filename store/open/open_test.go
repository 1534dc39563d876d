package open_test

import (
	"path/filepath"
	"testing"

	"agent9/fsys"
	"agent9/store/open"
)

func TestAnAddressSaysWhichStore(t *testing.T) {
	at := "bolt:" + filepath.Join(t.TempDir(), "db")
	if db, err := open.Open(at, open.Options{Existing: true}); err == nil || db != nil {
		t.Errorf("a store that is not there: %v, %v", db, err)
	}
	db, err := open.Open(at, open.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Put(t.Context(), "k", []byte("v")); err != nil {
		t.Error(err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
	for _, at := range []string{"", "db", "engine:db"} {
		if _, err := open.Open(at, open.Options{}); fsys.CodeOf(err) != fsys.Invalid {
			t.Errorf("%q: %v", at, err)
		}
	}
}
