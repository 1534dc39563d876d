// Package open opens a store by its address:
//
//	bolt:PATH    a file of this machine, see store/bolt
package open

import (
	"context"
	"strings"

	"agent9/fsys"
	"agent9/store"
	"agent9/store/bolt"
)

// A DB is a store that is open.
type DB interface {
	store.Updater
	store.Copier
	store.Prober
	// Reseal gives each record that has none a checksum, and returns how many
	// there were. It can be interrupted.
	Reseal(ctx context.Context) (n int, err error)
	Close() error
}

// Options are what an address does not say.
type Options = bolt.Options

// Open opens the store at address. Its errors are those of the driver, and
// fsys.Invalid if no driver has such addresses.
func Open(address string, opt Options) (DB, error) {
	path, ok := strings.CutPrefix(address, "bolt:")
	if !ok {
		return nil, fsys.E(fsys.Invalid, "no store has the address "+address+"; write bolt:PATH")
	}
	db, err := bolt.OpenWith(path, opt)
	if err != nil {
		return nil, err // and no DB, not one that is a nil *bolt.DB
	}
	return db, nil
}
