package main

import (
	"context"
	"os"
	"path/filepath"

	"agent9/fsys"
	"agent9/fsys/export/fuse"
	"agent9/services/identity"
	"agent9/store"
	"agent9/store/bolt"
)

// This file and models.go are the only ones that name concrete stores, drivers
// and front ends.

// openStore opens the database in the directory data.
func openStore(data string) (closer interface {
	store.Updater
	Close() error
}, err error) {
	if err := os.MkdirAll(data, 0o700); err != nil {
		return nil, fsys.Wrap(fsys.Unavailable, "the data directory "+data, err)
	}
	return bolt.Open(filepath.Join(data, "agent9.db"))
}

// openRing returns what the agents' keys are encrypted with.
func openRing(ctx context.Context, data string, db store.Updater) (*identity.KeyRing, error) {
	st := store.Sub(db, "keyring/")
	passphrase, err := identity.TakePassphrase()
	if err != nil {
		return nil, err
	}
	if len(passphrase) > 0 {
		return identity.RingFromPassphrase(ctx, st, passphrase)
	}
	return identity.RingFromFile(ctx, st, filepath.Join(data, "master.key"))
}

// mount shows root to the kernel at dir.
func mount(ctx context.Context, root fsys.Node, dir string) (unmount func() error, err error) {
	m, err := fuse.Mount(ctx, root, dir, fuse.Options{Caller: fsys.Operator})
	if err != nil {
		return nil, err
	}
	return m.Unmount, nil
}
