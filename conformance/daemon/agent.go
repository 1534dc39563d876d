package daemon

import (
	"path/filepath"
	"testing"

	"agent9/services/host"
	"agent9/store"
	"agent9/store/bolt"
)

// Stored returns the keys that begin with prefix in the database of a daemon
// that does not run.
func Stored(t *testing.T, d *Daemon, prefix string) (keys []string) {
	t.Helper()
	db, err := bolt.OpenWith(filepath.Join(d.Data(), host.DatabaseName), bolt.Options{Steps: host.Steps(), Where: host.Where})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for pair, err := range store.All(Within(t), db, prefix) {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, pair.Key)
	}
	return keys
}
