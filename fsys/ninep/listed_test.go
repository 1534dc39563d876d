package ninep_test

import (
	"fmt"
	"testing"

	"agent9/fsys"
	"agent9/fsys/ninep"
	"agent9/store/files"
	"agent9/store/mem"
)

// What a listing says of its entries is what each says of itself; a listing
// may be longer than a message.
func TestListInfo(t *testing.T) {
	tree, err := files.New(t.Context(), mem.New(), files.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		_, h, err := fsys.Create(t.Context(), tree.Root(), fmt.Sprint("file", i), 0o640, fsys.Write)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fsys.WriteAt(t.Context(), h, make([]byte, i), 0); err != nil {
			t.Fatal(err)
		}
		h.Close()
	}
	if _, err := fsys.Mkdir(t.Context(), tree.Root(), "dir", 0o755); err != nil {
		t.Fatal(err)
	}
	_, root := attach(t, serveNode(t, tree.Root()), ninep.DialMsize(4096))
	entries, err := root.ListInfo(t.Context())
	if err != nil || len(entries) != 101 {
		t.Fatalf("%d entries, %v", len(entries), err)
	}
	for _, e := range entries {
		want, err := e.Node.Stat(t.Context())
		if err != nil || e.Info == nil || *e.Info != want {
			t.Errorf("%s: %+v, %v, want %+v", e.Name, e.Info, err, want)
		}
	}
	if entries, err = entries[0].Node.(*ninep.Remote).ListInfo(t.Context()); err != nil || len(entries) != 0 {
		t.Errorf("an empty directory: %v, %v", entries, err)
	}
}
