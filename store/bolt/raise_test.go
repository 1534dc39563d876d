package bolt_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"agent9/fsys"
	"agent9/store"
	"agent9/store/bolt"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
)

// appends returns a step that adds to what is at key.
func appends(key, text string) store.Step {
	return func(ctx context.Context, tx store.Store) error {
		b, err := tx.Get(ctx, key)
		if err != nil {
			return err
		}
		return tx.Put(ctx, key, append(b, text...))
	}
}

func valueAt(t *testing.T, path string, opt bolt.Options, key string) string {
	t.Helper()
	d, err := bolt.OpenWith(path, opt)
	require.NoError(t, err)
	defer d.Close()
	b, err := d.Get(t.Context(), key)
	require.NoError(t, err)
	return string(b)
}

func TestRaise(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	d, err := bolt.Open(path)
	require.NoError(t, err)
	require.NoError(t, d.Put(t.Context(), "k", []byte("1")))
	require.NoError(t, d.Close())
	two := []store.Step{appends("k", "2")}
	three := append(two, appends("k", "3"))

	_, err = bolt.OpenWith(path, bolt.Options{Steps: two, ReadOnly: true})
	require.Equal(t, fsys.Unsupported, fsys.CodeOf(err))
	require.Contains(t, fsys.ReasonOf(err), "has version 1, and this needs version 2")

	broken := append(two, func(ctx context.Context, tx store.Store) error {
		if err := tx.Put(ctx, "k", []byte("lost")); err != nil {
			return err
		}
		return errors.New("this cannot be raised")
	})
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	_, err = bolt.OpenWith(path, bolt.Options{Steps: broken})
	require.ErrorContains(t, err, "this cannot be raised")
	require.Contains(t, fsys.ReasonOf(err), "was not changed")
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, before, after)
	require.Equal(t, "1", valueAt(t, path, bolt.Options{}, "k"), "the daemon of before still opens it")

	require.Equal(t, "123", valueAt(t, path, bolt.Options{Steps: three}, "k"))
	require.Equal(t, "123", valueAt(t, path, bolt.Options{Steps: three}, "k"), "it is raised once")
	require.Equal(t, "123", valueAt(t, path, bolt.Options{Steps: three, ReadOnly: true}, "k"))
	for range 2 {
		_, err = bolt.OpenWith(path, bolt.Options{Steps: two})
		require.Equal(t, fsys.Unsupported, fsys.CodeOf(err))
		require.Contains(t, fsys.ReasonOf(err), "has version 3, and this daemon supports versions up to 2")
	}
}

func TestRaiseWithoutVersion(t *testing.T) {
	path, _ := filled(t)
	db, err := bbolt.Open(path, 0o600, nil)
	require.NoError(t, err)
	require.NoError(t, db.Update(func(tx *bbolt.Tx) error { return tx.Bucket([]byte("agent9")).Delete([]byte("schema")) }))
	require.NoError(t, db.Close())
	d := openAt(t, path)
	page, err := d.List(t.Context(), "", "", 1)
	require.NoError(t, err)
	require.Len(t, page, 1)
	require.NoError(t, d.Close())
	db, err = bbolt.Open(path, 0o600, nil)
	require.NoError(t, err)
	defer db.Close()
	require.NoError(t, db.View(func(tx *bbolt.Tx) error {
		require.Equal(t, "1", string(tx.Bucket([]byte("agent9")).Get([]byte("schema"))))
		return nil
	}))
}

func TestReadOnly(t *testing.T) {
	path, _ := filled(t)
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	d, err := bolt.OpenWith(path, bolt.Options{ReadOnly: true})
	require.NoError(t, err)
	require.Error(t, d.Put(t.Context(), "k", nil))
	require.NoError(t, d.Probe(t.Context(), func(_, what string) { t.Error(what) }))
	require.NoError(t, d.Close())
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, before, after)
	for _, opt := range []bolt.Options{{ReadOnly: true}, {Existing: true}} {
		none := filepath.Join(t.TempDir(), "none")
		_, err = bolt.OpenWith(none, opt)
		require.Equal(t, fsys.NotExist, fsys.CodeOf(err))
		require.NoFileExists(t, none)
	}
}

// A copy is whole, and of one moment, while others write.
func TestCopyUnderLoad(t *testing.T) {
	dir := t.TempDir()
	d := openAt(t, filepath.Join(dir, "db"))
	ctx, stop := context.WithCancel(t.Context())
	wrote, done := make(chan int, 1), make(chan struct{})
	go func() {
		defer close(done)
		for i := 1; ctx.Err() == nil; i++ {
			err := d.Update(t.Context(), func(tx store.Store) error {
				return errors.Join(tx.Put(ctx, "a", fsys.Line(i)), tx.Put(ctx, "b", fsys.Line(i)), tx.Put(ctx, "c", make([]byte, 100+i%5000)))
			})
			if err != nil {
				t.Error(err)
				return
			}
			select {
			case <-wrote:
			default:
			}
			wrote <- i
		}
	}()
	for range 5 {
		least := <-wrote
		path := filepath.Join(dir, "copy")
		f, err := os.Create(path)
		require.NoError(t, err)
		require.NoError(t, d.Copy(t.Context(), f))
		require.NoError(t, f.Close())
		c := openAt(t, path)
		a, err := store.GetJSON[int](t.Context(), c, "a")
		require.NoError(t, err)
		b, err := store.GetJSON[int](t.Context(), c, "b")
		require.NoError(t, err)
		require.Equal(t, a, b)
		require.GreaterOrEqual(t, a, least)
		require.NoError(t, c.Probe(t.Context(), func(_, what string) { t.Error(what) }))
		require.NoError(t, c.Close())
		require.NoError(t, os.Remove(path))
	}
	stop()
	<-done
	cut, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, d.Copy(cut, failing{}), context.Canceled)
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("this cannot be written to") }
