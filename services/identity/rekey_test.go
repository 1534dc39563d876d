package identity_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"agent9/fsys"
	"agent9/services/identity"
	"agent9/store/mem"
)

// A rotation that ends at any of its steps leaves the right key where it is
// found.
func TestRekeyCutOff(t *testing.T) {
	for what, c := range map[string]struct {
		cut       func(t *testing.T, f *identity.Fresh, st *mem.DB, path string)
		committed bool
	}{
		"after the new key was made": {func(*testing.T, *identity.Fresh, *mem.DB, string) {}, false},
		"after the commit": {func(t *testing.T, f *identity.Fresh, st *mem.DB, _ string) {
			require.NoError(t, f.Put(t.Context(), st))
		}, true},
		"after the old key was moved": {func(t *testing.T, f *identity.Fresh, st *mem.DB, path string) {
			require.NoError(t, f.Put(t.Context(), st))
			require.NoError(t, os.Rename(path, path+".old"))
		}, true},
		"not at all": {func(t *testing.T, f *identity.Fresh, st *mem.DB, path string) {
			require.NoError(t, f.Put(t.Context(), st))
			old, err := f.Settle()
			require.NoError(t, err)
			require.Equal(t, path+".old", old)
		}, true},
	} {
		t.Run(what, func(t *testing.T) {
			st, path := mem.New(), filepath.Join(t.TempDir(), "master.key")
			_, err := identity.RingFromFile(t.Context(), st, path)
			require.NoError(t, err)
			first, err := os.ReadFile(path)
			require.NoError(t, err)
			fresh, err := identity.FreshFile(path)
			require.NoError(t, err)
			c.cut(t, fresh, st, path)

			for range 2 { // the first start settles it
				ring, err := identity.RingFromFile(t.Context(), st, path)
				require.NoError(t, err)
				now, err := os.ReadFile(path)
				require.NoError(t, err)
				opened, err := ring.Box("x").Open(fresh.Box("x").Seal([]byte("secret")))
				if !c.committed {
					require.Equal(t, first, now)
					require.Error(t, err)
					continue
				}
				require.NoError(t, err)
				require.Equal(t, "secret", string(opened))
				require.NotEqual(t, first, now)
				old, err := os.ReadFile(path + ".old")
				require.NoError(t, err)
				require.Equal(t, first, old, "the old key is kept")
			}
			info, err := os.Stat(path)
			require.NoError(t, err)
			require.Equal(t, os.FileMode(0o600), info.Mode())
			again, err := identity.FreshFile(path) // what was left of the last time is in nobody's way
			require.NoError(t, err)
			again.Discard()
		})
	}
}

func TestWrongKeyIsNotReplaced(t *testing.T) {
	st, dir := mem.New(), t.TempDir()
	path := filepath.Join(dir, "master.key")
	_, err := identity.RingFromFile(t.Context(), st, path)
	require.NoError(t, err)
	_, err = identity.RingFromFile(t.Context(), mem.New(), path+".next") // a key of something else
	require.NoError(t, err)
	require.NoError(t, os.Rename(path, filepath.Join(dir, "elsewhere")))
	_, err = identity.RingFromFile(t.Context(), st, path)
	require.Equal(t, fsys.NotExist, fsys.CodeOf(err))
	require.NoFileExists(t, path)
}
