package mem_test

import (
	"runtime"
	"testing"
	"weak"

	"agent9/store"
	"agent9/store/mem"
)

func TestAViewKeepsItsOwner(t *testing.T) {
	db := mem.New()
	owner := &struct{ name [64]byte }{}
	w := weak.Make(owner)
	view := store.Sub(store.Owned(store.Sub(db, "a/"), owner), "b/")
	runtime.GC()
	if w.Value() == nil {
		t.Error("the owner is gone while there is a view of what it stores")
	}
	if err := view.Put(t.Context(), "k", []byte("v")); err != nil {
		t.Fatal(err)
	}
	if b, err := db.Get(t.Context(), "a/b/k"); string(b) != "v" {
		t.Errorf("what the view stored is %q, %v", b, err)
	}
	runtime.KeepAlive(view)
	runtime.GC()
	if w.Value() != nil {
		t.Error("the owner is kept when there is no view any more")
	}
	runtime.KeepAlive(db)
}
