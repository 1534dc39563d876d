// Package identity gives each agent a key that signs and decrypts for it and
// cannot be taken out.
//
//	pubkey    Text: the public key, 64 hex digits (BIP-340)
//	npub      Text: the same as npub1… (NIP-19)
//	sign      Message: every byte written, also a last newline, is the message; a read gives the
//	          BIP-340 signature over its SHA-256, 128 hex digits. There is no signature of nothing
//	verify    Message: {"pubkey", "signature", "message"}, or "sha256" (64 hex digits) for a message
//	          that is not text: `true` or `false`
//	encrypt   Message: {"recipient", "message"}: a NIP-44 version 2 payload for recipient, in base64
//	decrypt   Message: {"sender", "ciphertext"}: the message, and one newline after it
//
// A public key is written as 64 hex digits or npub1…. The key is a secp256k1
// private key, made with the agent and sealed under the master key of a
// [KeyRing]. It is opened for the moment of its use, and nothing here returns
// it, writes it into a file, or puts it into an error.
//
// A mount that is sign-only allows pubkey, npub, sign and verify. To encrypt
// and to decrypt count as changes there: they let a caller speak and read in
// the agent's name in private.
package identity

import (
	"context"
	"encoding/hex"
	"errors"

	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/btcsuite/btcd/btcec/v2/schnorr"

	"agent9/fsys"
	"agent9/store"
)

// A Service is one agent's identity. It is safe for concurrent use.
type Service struct {
	st    store.Updater
	ring  *KeyRing
	agent string
	key   record
	note  store.Note
	root  *fsys.Table
}

var _ fsys.FileService = (*Service)(nil)

// record is the value at recordKey.
type record struct {
	Version int    `json:"version"`
	Pubkey  string `json:"pubkey"`
	Sealed  []byte `json:"sealed"`
}

const (
	recordKey     = "key"
	recordVersion = 1
	keyPurpose    = "identity"
)

// Create makes the key of a new agent in tx, where [Open] will look for it,
// and returns its public key in hex. It fails with fsys.Exist, and changes
// nothing, if there is a key already.
func Create(ctx context.Context, tx store.Store, ring *KeyRing, agent string) (pubkey string, err error) {
	switch _, err := tx.Get(ctx, recordKey); {
	case err == nil:
		return "", fsys.E(fsys.Exist, agent+" has a key already, and it is never replaced")
	case !errors.Is(err, fsys.NotExist):
		return "", err
	}
	key, err := btcec.NewPrivateKey()
	if err != nil {
		return "", fsys.Wrap(fsys.Internal, "no randomness for a key", err)
	}
	defer key.Zero()
	raw := new([32]byte)
	defer clear(raw[:])
	key.Key.PutBytes(raw)
	pubkey = hex.EncodeToString(schnorr.SerializePubKey(key.PubKey()))
	rec := record{recordVersion, pubkey, ring.seal(raw[:], keyPurpose, agent, pubkey)}
	return pubkey, store.PutJSON(ctx, tx, recordKey, rec)
}

// PubkeyIn returns the public key of the agent whose key is in s.
func PubkeyIn(ctx context.Context, s store.Store) (string, error) {
	rec, err := store.GetJSON[record](ctx, s, recordKey)
	return rec.Pubkey, err
}

// Reseal copies the key of an agent, sealed in ring, to where another store
// keeps that of newAgent, sealed in newRing. It is the same key.
func Reseal(ctx context.Context, from store.Store, ring *KeyRing, agent string, to store.Store, newRing *KeyRing, newAgent string) (pubkey string, err error) {
	rec, err := store.GetJSON[record](ctx, from, recordKey)
	if err != nil {
		return "", fsys.Wrap(fsys.Internal, "the key of "+agent, err)
	}
	raw, err := ring.open(rec.Sealed, keyPurpose, agent, rec.Pubkey)
	if err != nil {
		return "", fsys.Wrap(fsys.Internal, "the key of "+agent, err)
	}
	defer clear(raw)
	key, err := privateKey(raw)
	if err != nil {
		return "", err
	}
	defer key.Zero()
	if pub := hex.EncodeToString(schnorr.SerializePubKey(key.PubKey())); pub != rec.Pubkey {
		return "", fsys.E(fsys.Invalid, "the private key of "+agent+" is not that of its public key")
	}
	rec.Version, rec.Sealed = recordVersion, newRing.seal(raw, keyPurpose, newAgent, rec.Pubkey)
	return rec.Pubkey, store.PutJSON(ctx, to, recordKey, rec)
}

// Open returns the identity that [Create] made for agent. What was signed,
// encrypted or decrypted is handed out only when note has recorded it.
func Open(ctx context.Context, st store.Updater, ring *KeyRing, agent string, note store.Note) (*Service, error) {
	s := &Service{st: st, ring: ring, agent: agent, note: note}
	var err error
	if s.key, err = store.GetJSON[record](ctx, st, recordKey); err != nil {
		return nil, fsys.Wrap(fsys.Internal, "the key of "+agent, err)
	}
	if s.key.Version != recordVersion {
		return nil, fsys.E(fsys.Internal, "the record of the key of "+agent+" is from another version of this program")
	}
	x, err := parsePubkey("the public key of "+agent, s.key.Pubkey)
	if err != nil {
		return nil, err
	}
	s.root = fsys.NewTable(
		fsys.Entry{Name: "pubkey", Node: fsys.Const(s.key.Pubkey + "\n")},
		fsys.Entry{Name: "npub", Node: fsys.Const(npub(x) + "\n")},
		fsys.Entry{Name: "sign", Node: &fsys.Call{Do: s.sign, Effect: fsys.Signs, Raw: true}},
		fsys.Entry{Name: "verify", Node: &fsys.Call{Do: verify, Effect: fsys.Computes}},
		fsys.Entry{Name: "encrypt", Node: &fsys.Call{Do: s.encrypt, Effect: fsys.Changes}},
		fsys.Entry{Name: "decrypt", Node: &fsys.Call{Do: s.decrypt, Effect: fsys.Changes}},
	)
	return s, nil
}

func (s *Service) Root() fsys.Node { return s.root }

// Pubkey returns the agent's public key, 64 hex digits.
func (s *Service) Pubkey() string { return s.key.Pubkey }

// withKey runs f with the private key, which is gone when f returns.
func (s *Service) withKey(f func(*btcec.PrivateKey) error) error {
	raw, err := s.ring.open(s.key.Sealed, keyPurpose, s.agent, s.key.Pubkey)
	if err != nil {
		return fsys.Wrap(fsys.Internal, "the key of "+s.agent, err)
	}
	defer clear(raw)
	key, err := privateKey(raw)
	if err != nil {
		return err
	}
	defer key.Zero()
	return f(key)
}

// privateKey decodes 32 bytes that are from 1 to the order of the curve.
func privateKey(raw []byte) (*btcec.PrivateKey, error) {
	key := new(btcec.PrivateKey)
	if tooBig := key.Key.SetByteSlice(raw); len(raw) != 32 || tooBig || key.Key.IsZero() {
		return nil, fsys.E(fsys.Internal, "this is not a private key")
	}
	return key, nil
}

func (s *Service) record(ctx context.Context, event string, detail any) error {
	return s.st.Update(ctx, func(tx store.Store) error { return s.note.Record(tx, event, detail) })
}
