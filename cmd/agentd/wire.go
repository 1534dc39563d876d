package main

import (
	"context"
	"os"
	"path/filepath"

	"agent9/fsys"
	"agent9/fsys/export/fuse"
	"agent9/fsys/locks"
	"agent9/fsys/share"
	"agent9/services/host"
	"agent9/services/identity"
	"agent9/store"
	"agent9/store/open"
)

// This file, models.go and sandboxes.go are the only ones that name concrete stores, drivers
// and front ends.

// keyFile is the master key in a data directory.
const keyFile = "master.key"

// openStore opens the database in the directory data.
func openStore(data string) (open.DB, error) {
	if err := os.MkdirAll(data, 0o700); err != nil {
		return nil, fsys.Wrap(fsys.Unavailable, "the data directory "+data, err)
	}
	if err := checkDir(data); err != nil {
		return nil, err
	}
	return openWith(data, open.Options{})
}

// openWith opens the database in the directory data, and raises an older one.
func openWith(data string, opt open.Options) (open.DB, error) {
	opt.Steps, opt.Where = host.Steps(), host.Where
	return open.Open("bolt:"+filepath.Join(data, host.DatabaseName), opt)
}

// openRing returns what the agents' keys are encrypted with: passphrase, or if
// there is none, a file.
func openRing(ctx context.Context, data string, db store.Updater, passphrase []byte) (*identity.KeyRing, error) {
	st := store.Sub(db, host.KeyRingPart)
	if len(passphrase) > 0 {
		return identity.RingFromPassphrase(ctx, st, passphrase)
	}
	return identity.RingFromFile(ctx, st, filepath.Join(data, keyFile))
}

// mountBytes is about what a mount takes by itself: the buffers for requests of
// the kernel.
const mountBytes = 2 << 20

// mount shows the operator's tree to the kernel at dir.
func mount(ctx context.Context, h *host.Host, dir string, pool *share.Pool, locked *locks.Table) (unmount func() error, err error) {
	part, ok := pool.Open(share.Operator, share.Terms{Speaks: "fuse", Kind: share.Conns, Base: mountBytes})
	if !ok {
		return nil, share.ErrFull
	}
	m, err := fuse.Mount(ctx, h.Root(), dir, fuse.Options{Caller: fsys.Operator, Part: part, Locks: locked, ID: h.ID()})
	if err != nil {
		part.Close()
		return nil, err
	}
	return func() error {
		defer part.Close()
		return m.Unmount()
	}, nil
}
