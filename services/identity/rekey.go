package identity

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/crypto/argon2"
	"golang.org/x/crypto/chacha20poly1305"

	"agent9/fsys"
	"agent9/store"
)

// The files beside a key file: the key that is about to take its place, and the
// one that had it before.
const (
	nextSuffix = ".next"
	oldSuffix  = ".old"
)

// A Fresh ring is about to take the place of another one. [Fresh.Put] in a
// transaction that seals all anew decides: before it is committed the old
// master key is the right one, and afterwards the new one. A program that dies
// in between has lost neither.
type Fresh struct {
	*KeyRing
	rec  ringRecord
	path string // of the key file; empty with a passphrase
}

// FreshFile returns a ring with a new master key, which is on disk beside the
// key file at path.
func FreshFile(path string) (*Fresh, error) {
	next := path + nextSuffix
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fsys.Wrap(fsys.Unavailable, "a key that was never used", err)
	}
	master, err := createKeyFile(next)
	if err != nil {
		return nil, err
	}
	return fresh(master, nil, path)
}

// FreshPassphrase returns a ring whose master key is made of passphrase, which it
// clears. path is where there may be a key file, which is then not used any more.
func FreshPassphrase(passphrase []byte, path string) (*Fresh, error) {
	defer clear(passphrase)
	if len(passphrase) == 0 {
		return nil, fsys.E(fsys.Invalid, "the passphrase is empty")
	}
	kdf := newArgon2id()
	rand.Read(kdf.Salt) // never fails
	return fresh(kdf.master(passphrase), kdf, path)
}

func newArgon2id() *argon2id { // RFC 9106, second choice
	return &argon2id{Salt: make([]byte, 16), Passes: 3, MemoryKiB: 64 << 10, Lanes: 4}
}

func (a *argon2id) master(passphrase []byte) []byte {
	return argon2.IDKey(passphrase, a.Salt, a.Passes, a.MemoryKiB, a.Lanes, chacha20poly1305.KeySize)
}

func fresh(master []byte, kdf *argon2id, path string) (*Fresh, error) {
	ring, err := newRing(master)
	if err != nil {
		return nil, err
	}
	return &Fresh{ring, ringRecord{ringVersion, kdf, ring.seal(nil, checkPurpose)}, path}, nil
}

// Put makes f the ring of st.
func (f *Fresh) Put(ctx context.Context, st store.Store) error {
	return store.PutJSON(ctx, st, ringKey, f.rec)
}

// Settle gives the key file its name, after Put was committed. The one that was
// there is kept, for backups that were made before: old is its name, empty if
// there was none.
func (f *Fresh) Settle() (old string, err error) {
	return settleKeyFile(f.path, f.rec.Argon2 == nil)
}

// settleKeyFile moves the key file at path away, and, with next, the new one
// there.
func settleKeyFile(path string, next bool) (old string, err error) {
	old = path + oldSuffix
	switch err := os.Rename(path, old); {
	case errors.Is(err, fs.ErrNotExist):
		old = ""
	case err != nil:
		return "", fsys.Wrap(fsys.Unavailable, "the old master key", err)
	}
	if next {
		if err := os.Rename(path+nextSuffix, path); err != nil {
			return old, fsys.Wrap(fsys.Unavailable, "the new master key", err)
		}
	}
	return old, fsys.Wrap(fsys.Unavailable, "the master key", syncDir(filepath.Dir(path)))
}

// Discard takes away what was made for f, which is not to be used.
func (f *Fresh) Discard() {
	if f.rec.Argon2 == nil {
		os.Remove(f.path + nextSuffix)
	}
}

// ringOfFile returns the ring of rec whose key is in the file at path, or in the
// one that was about to take its place when the program died; that is settled.
func ringOfFile(rec *ringRecord, path string) (*KeyRing, error) {
	ring, err := ringAt(rec, path)
	if err == nil {
		return ring, nil
	}
	next, nerr := ringAt(rec, path+nextSuffix)
	if nerr != nil {
		return nil, err
	}
	if _, err := settleKeyFile(path, true); err != nil {
		return nil, err
	}
	return next, nil
}

func ringAt(rec *ringRecord, path string) (*KeyRing, error) {
	master, err := readKeyFile(path)
	if err != nil {
		return nil, err
	}
	ring, err := newRing(master)
	if err != nil {
		return nil, err
	}
	return ring, ring.fits(rec, "the master key in "+path)
}

// fits reports that r is not the ring of rec, if so.
func (r *KeyRing) fits(rec *ringRecord, what string) error {
	if _, err := r.open(rec.Check, checkPurpose); err != nil {
		return fsys.E(fsys.Permission, what+" is not the one that the keys here were sealed under: give the right one; nothing was changed")
	}
	return nil
}

// HasRing reports whether st has a ring, so that opening it makes no key.
func HasRing(ctx context.Context, st store.Store) (bool, error) {
	rec, err := loadRing(ctx, st)
	return rec != nil, err
}

// Explain says in words what opens the keys in st, and is not in there.
func Explain(ctx context.Context, st store.Store) (string, error) {
	rec, err := loadRing(ctx, st)
	switch {
	case err != nil:
		return "", err
	case rec == nil:
		return "a master key, as there is none yet", nil
	case rec.Argon2 != nil:
		return "the passphrase under which the agents' keys and secrets are sealed", nil
	}
	return "master.key, under which the agents' keys and secrets are sealed: without it\n  the agents cannot sign, and the daemon does not start. Keep a copy elsewhere", nil
}
