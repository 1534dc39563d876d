package identity

import (
	"encoding/hex"
	"strings"

	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/btcsuite/btcd/btcec/v2/schnorr"
	"github.com/decred/dcrd/bech32"

	"agent9/fsys"
)

// A pubkey is the x coordinate of a point (BIP-340), which need not exist.
type pubkey [32]byte

const npubPrefix = "npub"

// npub returns x in the form of NIP-19.
func npub(x pubkey) string {
	s, err := bech32.EncodeFromBase256(npubPrefix, x[:])
	if err != nil {
		panic(err) // of 32 bytes and a fixed prefix there is always one
	}
	return s
}

// parsePubkey decodes 64 hex digits or npub1…. field is what the error calls
// s; s itself is not in the error, as it may be a private key by mistake.
func parsePubkey(field, s string) (x pubkey, err error) {
	s = strings.TrimSpace(s)
	if b, err := hex.DecodeString(s); err == nil && len(b) == len(x) {
		return pubkey(b), nil
	}
	if prefix, b, err := bech32.DecodeToBase256(s); err == nil && prefix == npubPrefix && len(b) == len(x) {
		return pubkey(b), nil
	}
	return x, fsys.E(fsys.Invalid, field+" is not a public key: want 64 hex digits or npub1…")
}

// parsePoint is parsePubkey for a key that a message is encrypted for.
func parsePoint(field, s string) (*btcec.PublicKey, error) {
	x, err := parsePubkey(field, s)
	if err != nil {
		return nil, err
	}
	p, err := schnorr.ParsePubKey(x[:])
	if err != nil {
		return nil, fsys.E(fsys.Invalid, field+" is not a public key: no point of secp256k1 has this x coordinate")
	}
	return p, nil
}
