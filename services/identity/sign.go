package identity

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"

	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/btcsuite/btcd/btcec/v2/schnorr"

	"agent9/fsys"
)

// signed is the detail of the event identity.signed.
type signed struct {
	By     fsys.Caller `json:"by,omitempty"`
	SHA256 string      `json:"sha256"`
	Bytes  int         `json:"bytes"`
}

func (s *Service) sign(ctx context.Context, msg []byte) ([]byte, error) {
	digest := sha256.Sum256(msg)
	var aux [32]byte
	rand.Read(aux[:]) // never fails
	var sig []byte
	err := s.withKey(func(key *btcec.PrivateKey) (err error) {
		sig, err = signDigest(key, digest, aux)
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := s.record(ctx, "identity.signed", signed{fsys.CallerOf(ctx), hex.EncodeToString(digest[:]), len(msg)}); err != nil {
		return nil, err
	}
	return hexLine(sig), nil
}

// signDigest is the signing of BIP-340 with auxiliary randomness aux.
func signDigest(key *btcec.PrivateKey, digest, aux [32]byte) ([]byte, error) {
	sig, err := schnorr.Sign(key, digest[:], schnorr.CustomNonce(aux))
	if err != nil {
		return nil, fsys.Wrap(fsys.Internal, "signing", err)
	}
	return sig.Serialize(), nil
}

type verifyRequest struct {
	Pubkey    string  `json:"pubkey"`
	Signature string  `json:"signature"`
	Message   *string `json:"message"`
	SHA256    *string `json:"sha256"`
}

const verifyForm = `{"pubkey": …, "signature": …, "message": …}`

// verify refuses what has not the form of a request; of what has, everything
// that BIP-340 does not verify is false.
func verify(_ context.Context, req []byte) ([]byte, error) {
	r, err := decode[verifyRequest](req, verifyForm)
	if err != nil {
		return nil, err
	}
	key, err := parsePubkey("pubkey", r.Pubkey)
	if err != nil {
		return nil, err
	}
	sig, err := hex.DecodeString(r.Signature)
	if err != nil || len(sig) != schnorr.SignatureSize {
		return nil, fsys.E(fsys.Invalid, "signature is not one: want 128 hex digits")
	}
	digest, err := r.digest()
	if err != nil {
		return nil, err
	}
	return fsys.Line(verifyDigest(key, digest, sig)), nil
}

func (r verifyRequest) digest() (d [32]byte, err error) {
	switch {
	case (r.Message == nil) == (r.SHA256 == nil):
		return d, fsys.E(fsys.Invalid, `give either message or sha256; want `+verifyForm)
	case r.Message != nil:
		return sha256.Sum256([]byte(*r.Message)), nil
	}
	b, err := hex.DecodeString(*r.SHA256)
	if err != nil || len(b) != len(d) {
		return d, fsys.E(fsys.Invalid, "sha256 is not a digest: want 64 hex digits")
	}
	return [32]byte(b), nil
}

// verifyDigest is the verification of BIP-340.
func verifyDigest(x pubkey, digest [32]byte, sig []byte) bool {
	key, err := schnorr.ParsePubKey(x[:])
	if err != nil {
		return false
	}
	var s btcec.ModNScalar
	if tooBig := s.SetByteSlice(sig[32:]); tooBig {
		return false // the parser below reduces it
	}
	parsed, err := schnorr.ParseSignature(sig)
	return err == nil && parsed.Verify(digest[:], key)
}

func hexLine(b []byte) []byte { return append(hex.AppendEncode(nil, b), '\n') }
