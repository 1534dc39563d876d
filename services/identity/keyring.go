package identity

import (
	"context"
	"crypto/cipher"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"

	"golang.org/x/crypto/chacha20poly1305"

	"agent9/fsys"
	"agent9/store"
)

// A KeyRing seals private keys under one master key, which is either in a file
// ([RingFromFile]) or made from a passphrase ([RingFromPassphrase]). It shows
// nothing of the key when it is printed, logged or encoded.
//
// What it seals is XChaCha20-Poly1305 with a random nonce before it, bound to
// its purpose, its agent and its public key: a sealed key that is moved to
// another agent does not open.
type KeyRing struct {
	// aead holds the master key. It is behind a function because fmt follows
	// pointers in unexported fields for some verbs, and never a function.
	aead func() cipher.AEAD
}

const hidden = "(a key ring)"

func (KeyRing) String() string               { return hidden }
func (KeyRing) GoString() string             { return hidden }
func (KeyRing) Format(f fmt.State, _ rune)   { io.WriteString(f, hidden) }
func (KeyRing) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// newRing clears master.
func newRing(master []byte) (*KeyRing, error) {
	defer clear(master)
	aead, err := chacha20poly1305.NewX(master)
	if err != nil {
		return nil, fsys.E(fsys.Internal, "the master key has the wrong length")
	}
	return &KeyRing{func() cipher.AEAD { return aead }}, nil
}

// seal encrypts secret; binding is what open must be given again.
func (r *KeyRing) seal(secret []byte, binding ...string) []byte {
	nonce := make([]byte, chacha20poly1305.NonceSizeX, chacha20poly1305.NonceSizeX+len(secret)+chacha20poly1305.Overhead)
	rand.Read(nonce) // never fails
	return r.aead().Seal(nonce, nonce, secret, bind(binding))
}

// open returns what was sealed; the caller clears it.
func (r *KeyRing) open(sealed []byte, binding ...string) ([]byte, error) {
	if n := chacha20poly1305.NonceSizeX; len(sealed) >= n {
		if secret, err := r.aead().Open(nil, sealed[:n], sealed[n:], bind(binding)); err == nil {
			return secret, nil
		}
	}
	return nil, fsys.E(fsys.Internal, "it cannot be opened with this master key, or its record was changed")
}

// bind is one-to-one: no name of an agent contains NUL.
func bind(words []string) []byte {
	return []byte("agent9\x00" + strings.Join(words, "\x00"))
}

// ringRecord is the value at ringKey: how the master key is made, and
// something sealed under it, to tell it from every other key.
type ringRecord struct {
	Version int       `json:"version"`
	Argon2  *argon2id `json:"argon2id,omitempty"` // of a passphrase
	Check   []byte    `json:"check"`
}

// argon2id has the parameters of RFC 9106.
type argon2id struct {
	Salt      []byte `json:"salt"`
	Passes    uint32 `json:"passes"`
	MemoryKiB uint32 `json:"memory_kib"`
	Lanes     uint8  `json:"lanes"`
}

const (
	ringKey      = "ring"
	ringVersion  = 1
	checkPurpose = "check"
)

// RingFromFile returns the ring whose master key is in the file at path, 64
// hex digits that only their owner may read. The file is made if st has no
// ring yet. If st has one, the file must be there and be the right one: no new
// key is ever made over keys that were sealed with another. Nobody else may make
// the file meanwhile.
func RingFromFile(ctx context.Context, st store.Store, path string) (*KeyRing, error) {
	rec, err := loadRing(ctx, st)
	if err != nil {
		return nil, err
	}
	if rec != nil && rec.Argon2 != nil {
		return nil, fsys.E(fsys.Invalid, "the keys here are sealed under a passphrase, and none was given")
	}
	sweepHalfMade(path)
	if rec != nil {
		return ringOfFile(rec, path)
	}
	master, err := readKeyFile(path)
	if errors.Is(err, fsys.NotExist) {
		master, err = createKeyFile(path)
	}
	if err != nil {
		return nil, err
	}
	ring, err := newRing(master)
	if err != nil {
		return nil, err
	}
	return ring.settle(ctx, st, nil, nil, "")
}

// RingFromPassphrase returns the ring whose master key is made of passphrase,
// and clears passphrase. The first one given to st is the right one.
func RingFromPassphrase(ctx context.Context, st store.Store, passphrase []byte) (*KeyRing, error) {
	defer clear(passphrase)
	if len(passphrase) == 0 {
		return nil, fsys.E(fsys.Invalid, "the passphrase is empty")
	}
	rec, err := loadRing(ctx, st)
	if err != nil {
		return nil, err
	}
	if rec != nil && rec.Argon2 == nil {
		return nil, fsys.E(fsys.Invalid, "the keys here are sealed under a key file, not under a passphrase")
	}
	kdf := newArgon2id()
	rand.Read(kdf.Salt) // never fails
	if rec != nil {
		kdf = rec.Argon2
	}
	ring, err := newRing(kdf.master(passphrase))
	if err != nil {
		return nil, err
	}
	return ring.settle(ctx, st, rec, kdf, "the passphrase")
}

// settle checks that r is the ring of rec, or makes it so if there is none.
func (r *KeyRing) settle(ctx context.Context, st store.Store, rec *ringRecord, kdf *argon2id, what string) (*KeyRing, error) {
	if rec != nil {
		return r, r.fits(rec, what)
	}
	rec = &ringRecord{ringVersion, kdf, r.seal(nil, checkPurpose)}
	if err := store.PutJSON(ctx, st, ringKey, rec); err != nil {
		return nil, err
	}
	return r, nil
}

// loadRing returns nil if st has no ring yet.
func loadRing(ctx context.Context, st store.Store) (*ringRecord, error) {
	rec, err := store.GetJSON[ringRecord](ctx, st, ringKey)
	switch {
	case errors.Is(err, fsys.NotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case rec.Version != ringVersion || !rec.Argon2.sane():
		return nil, fsys.E(fsys.Internal, "the record of the key ring is damaged, or from another version of this program")
	}
	return &rec, nil
}

// sane keeps a damaged record from taking all memory.
func (a *argon2id) sane() bool {
	return a == nil || a.Passes > 0 && a.Passes <= 1<<10 && a.MemoryKiB <= 4<<20 && a.Lanes > 0
}
