package files_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agent9/fsys"
	"agent9/store"
	"agent9/store/bolt"
	"agent9/store/files"
	"agent9/store/mem"
)

// counted counts what is asked of a store.
type counted struct {
	store.Updater
	views, reads int
}

func (c *counted) Get(ctx context.Context, key string) ([]byte, error) {
	c.reads++
	return c.Updater.Get(ctx, key)
}

func (c *counted) List(ctx context.Context, prefix, after string, n int) ([]store.Pair, error) {
	c.reads++
	return c.Updater.List(ctx, prefix, after, n)
}

func (c *counted) View(ctx context.Context, f func(s store.Store) error) error {
	c.views++
	return c.Updater.View(ctx, func(s store.Store) error { return f(&countedView{s, c}) })
}

type countedView struct {
	store.Store
	c *counted
}

func (v *countedView) Get(ctx context.Context, key string) ([]byte, error) {
	v.c.reads++
	return v.Store.Get(ctx, key)
}

func (v *countedView) Scan(ctx context.Context, prefix, after string, f func(key string, value []byte) bool) error {
	v.c.reads++
	return store.Scan(ctx, v.Store, prefix, after, f)
}

func (v *countedView) List(ctx context.Context, prefix, after string, n int) ([]store.Pair, error) {
	v.c.reads++
	return v.Store.List(ctx, prefix, after, n)
}

func makeFiles(t *testing.T, dir fsys.Node, n int) {
	t.Helper()
	for i := range n {
		_, h, err := fsys.Create(t.Context(), dir, fmt.Sprintf("%04d", i), 0o644, fsys.Write)
		require.NoError(t, err)
		require.NoError(t, fsys.Finish(t.Context(), h))
	}
}

// TestListingIsOneView counts what it takes to list a directory with all that
// its entries are.
func TestListingIsOneView(t *testing.T) {
	st := &counted{Updater: mem.New()}
	tree, err := files.New(t.Context(), st, files.Options{})
	require.NoError(t, err)
	makeFiles(t, tree.Root(), 1000)
	list, err := fsys.List(t.Context(), tree.Root())
	require.NoError(t, err)
	require.Len(t, list, 1000)
	for _, e := range list {
		info, err := e.Stat(t.Context())
		require.NoError(t, err)
		now, err := e.Node.Stat(t.Context())
		require.NoError(t, err)
		require.Equal(t, now, info, e.Name)
	}
	st.views, st.reads = 0, 0
	list, err = fsys.List(t.Context(), tree.Root())
	require.NoError(t, err)
	for _, e := range list {
		_, err := e.Stat(t.Context())
		require.NoError(t, err)
	}
	require.Equal(t, 1, st.views)
	require.Equal(t, 2, st.reads, "a pass over the entries, and one over the inodes")
}

// TestListingOfScatteredFiles is about files that were not made one after the
// other.
func TestListingOfScatteredFiles(t *testing.T) {
	tree, err := files.New(t.Context(), mem.New(), files.Options{})
	require.NoError(t, err)
	root := tree.Root()
	makeFiles(t, root, 40)
	for i := range 40 {
		if i%20 != 7 {
			n, err := fsys.Walk(t.Context(), root, fmt.Sprintf("%04d", i))
			require.NoError(t, err)
			require.NoError(t, fsys.Remove(t.Context(), n))
		}
	}
	list, err := fsys.List(t.Context(), root)
	require.NoError(t, err)
	require.Len(t, list, 2)
	for _, e := range list {
		now, err := e.Node.Stat(t.Context())
		require.NoError(t, err)
		require.Equal(t, now, *e.Info)
	}
}

// TestAllocations bounds what reading makes for the collector.
func TestAllocations(t *testing.T) {
	db, err := bolt.Open(filepath.Join(t.TempDir(), "db"))
	require.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	tree, err := files.New(t.Context(), store.Sub(db, "t/"), files.Options{})
	require.NoError(t, err)
	makeFiles(t, tree.Root(), 300)
	require.NoError(t, fsys.WriteFile(t.Context(), tree.Root(), "0007", []byte("some text")))
	file, err := fsys.Walk(t.Context(), tree.Root(), "0007")
	require.NoError(t, err)
	h, err := file.Open(t.Context(), fsys.Read)
	require.NoError(t, err)
	defer h.Close()
	p := make([]byte, 64)
	for name, c := range map[string]struct {
		most float64
		do   func() error
	}{
		"stat": {8, func() error { _, err := file.Stat(t.Context()); return err }},
		"read": {10, func() error { _, err := fsys.ReadAt(t.Context(), h, p, 0); return err }},
		"list": {10 * 300, func() error { _, err := fsys.List(t.Context(), tree.Root()); return err }},
	} {
		got := testing.AllocsPerRun(20, func() {
			if err := c.do(); err != nil {
				t.Fatal(err)
			}
		})
		if got > c.most {
			t.Errorf("%s: %v allocations, want at most %v", name, got, c.most)
		}
	}
}

// TestJSONRecords reads a tree as it was stored before records were packed, and
// changes it.
func TestJSONRecords(t *testing.T) {
	ctx, st := t.Context(), mem.New()
	for key, record := range map[string]string{
		"u":                                      `{"last":2,"bytes":2,"entries":1}`,
		"i/" + strings.Repeat("0", 15) + "1":     `{"dir":true,"perm":493,"mtime":5,"version":2}`,
		"i/" + strings.Repeat("0", 15) + "2":     `{"perm":420,"size":2,"mtime":1000000007,"version":3,"parent":1,"name":"old"}`,
		"d/" + strings.Repeat("0", 15) + "1/old": `{"ino":2}` + "\n",
		"b/" + strings.Repeat("0", 15) + "2/" + strings.Repeat("0", 16): "hi",
	} {
		require.NoError(t, st.Put(ctx, key, []byte(record)))
	}
	tree, err := files.New(ctx, st, files.Options{})
	require.NoError(t, err)
	list, err := fsys.List(ctx, tree.Root())
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, int64(1000000007), list[0].Info.ModTime.UnixNano())
	b, err := fsys.ReadFile(ctx, tree.Root(), "old")
	require.NoError(t, err)
	require.Equal(t, "hi", string(b))

	require.NoError(t, fsys.WriteFile(ctx, tree.Root(), "old", []byte("again")))
	require.NoError(t, tree.Root().(fsys.Renamer).Rename(ctx, "old", "new"))
	b, err = fsys.ReadFile(ctx, tree.Root(), "new")
	require.NoError(t, err)
	require.Equal(t, "again", string(b))
	raw, err := st.Get(ctx, "i/"+strings.Repeat("0", 15)+"2")
	require.NoError(t, err)
	require.False(t, json.Valid(raw), "%q", raw)

	require.NoError(t, st.Put(ctx, "i/"+strings.Repeat("0", 15)+"2", []byte{1, 0}))
	_, err = fsys.ReadFile(ctx, tree.Root(), "new")
	require.Equal(t, fsys.Internal, fsys.CodeOf(err))
}
