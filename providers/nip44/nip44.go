// Package nip44 encrypts messages between two keys as NIP-44 version 2 has it,
// https://github.com/nostr-protocol/nips/blob/master/44.md: for the files of
// identity/, and for whatever speaks with others by Nostr.
package nip44

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math/bits"
	"strings"
	"unicode/utf8"

	"github.com/btcsuite/btcd/btcec/v2"
	"golang.org/x/crypto/chacha20"

	"agent9/fsys"
)

// A payload is base64(version || nonce || ciphertext || mac), and what is
// encrypted is a length, the message, and zeros up to calcPadded.
const (
	payloadVersion = 2
	nonceSize      = 32
	macSize        = sha256.Size
	minPayload     = 1 + nonceSize + 2 + 32 + macSize
)

// MaxPlain is how many bytes a message has that every reader of NIP-44 can take.
const MaxPlain = 1<<16 - 1

// CheckPlain refuses a message of n bytes that some reader of NIP-44 cannot take.
// Longer ones have a form in the newer text of the NIP, which [Open] reads.
func CheckPlain(n int) error {
	switch {
	case n < 1:
		return fsys.E(fsys.Invalid, "message is empty or missing: NIP-44 has no encryption of nothing")
	case n > MaxPlain:
		return fsys.E(fsys.TooLarge, fmt.Sprintf("message has %d bytes: NIP-44 takes up to %d", n, MaxPlain))
	}
	return nil
}

// Conversation returns the 32 bytes that key and other share, with which both
// encrypt and decrypt; the caller clears them.
func Conversation(key *btcec.PrivateKey, other *btcec.PublicKey) ([]byte, error) {
	x := btcec.GenerateSharedSecret(key, other)
	defer clear(x)
	return hkdf.Extract(sha256.New, x, []byte("nip44-v2"))
}

// messageKeys are the keys of one message.
type messageKeys struct{ cipher, cipherNonce, mac []byte }

func deriveKeys(conversation, nonce []byte) (messageKeys, error) {
	b, err := hkdf.Expand(sha256.New, conversation, string(nonce), 76)
	if err != nil {
		return messageKeys{}, err
	}
	return messageKeys{b[:32], b[32:44], b[44:]}, nil
}

func (k messageKeys) crypt(dst, src []byte) error {
	c, err := chacha20.NewUnauthenticatedCipher(k.cipher, k.cipherNonce)
	if err == nil {
		c.XORKeyStream(dst, src)
	}
	return err
}

func (k messageKeys) sum(nonce, ciphertext []byte) []byte {
	h := hmac.New(sha256.New, k.mac)
	h.Write(nonce)
	h.Write(ciphertext)
	return h.Sum(nil)
}

// Seal encrypts a message that [CheckPlain] does not refuse.
func Seal(conversation, msg []byte) (payload string, err error) {
	var nonce [nonceSize]byte
	rand.Read(nonce[:]) // never fails
	return seal(conversation, nonce[:], msg)
}

// seal uses a nonce, which is never used twice.
func seal(conversation, nonce, msg []byte) (string, error) {
	padded := make([]byte, 2+calcPadded(len(msg)))
	binary.BigEndian.PutUint16(padded, uint16(len(msg)))
	copy(padded[2:], msg)
	return sealPadded(conversation, nonce, padded)
}

// sealPadded overwrites padded.
func sealPadded(conversation, nonce, padded []byte) (string, error) {
	keys, err := deriveKeys(conversation, nonce)
	if err != nil {
		return "", err
	}
	if err := keys.crypt(padded, padded); err != nil {
		return "", err
	}
	b := append([]byte{payloadVersion}, nonce...)
	b = append(b, padded...)
	b = append(b, keys.sum(nonce, padded)...)
	return base64.StdEncoding.EncodeToString(b), nil
}

// Open decrypts what [Seal] or another program encrypted. What cannot be is
// fsys.Invalid, with the reason.
func Open(conversation []byte, payload string) ([]byte, error) {
	payload = strings.TrimSpace(payload)
	if payload == "" {
		return nil, fsys.E(fsys.Invalid, "ciphertext is empty or missing")
	}
	if payload[0] == '#' {
		return nil, fsys.E(fsys.Invalid, "ciphertext is of an encryption version that is not known here")
	}
	b, err := base64.StdEncoding.Strict().DecodeString(payload)
	if err != nil || strings.ContainsAny(payload, "\r\n") {
		return nil, fsys.E(fsys.Invalid, "ciphertext is not base64")
	}
	switch {
	case len(b) > 0 && b[0] != payloadVersion:
		return nil, fsys.E(fsys.Invalid, "ciphertext is of an encryption version that is not known here")
	case len(b) < minPayload:
		return nil, fsys.E(fsys.Invalid, "ciphertext is too short for a NIP-44 payload")
	}
	nonce, rest := b[1:1+nonceSize], b[1+nonceSize:]
	ciphertext, mac := rest[:len(rest)-macSize], rest[len(rest)-macSize:]
	keys, err := deriveKeys(conversation, nonce)
	if err != nil {
		return nil, err
	}
	if !hmac.Equal(mac, keys.sum(nonce, ciphertext)) {
		return nil, fsys.E(fsys.Invalid, "ciphertext is not from this sender to this agent, or was changed on the way")
	}
	if err := keys.crypt(ciphertext, ciphertext); err != nil {
		return nil, err
	}
	msg, ok := unpad(ciphertext)
	switch {
	case !ok:
		return nil, fsys.E(fsys.Invalid, "the padding of ciphertext is wrong")
	case !utf8.Valid(msg):
		return nil, fsys.E(fsys.Invalid, "the message in ciphertext is not UTF-8 text")
	}
	return msg, nil
}

// unpad returns the message in padded, which has at least 34 bytes. A length
// of 0 means that the real one, above MaxPlain, follows as 32 bits.
func unpad(padded []byte) (msg []byte, ok bool) {
	n, msg := uint64(binary.BigEndian.Uint16(padded)), padded[2:]
	if n == 0 {
		n, msg = uint64(binary.BigEndian.Uint32(msg)), msg[4:]
		if n <= MaxPlain {
			return nil, false
		}
	}
	if n > uint64(len(msg)) || calcPadded(int(n)) != len(msg) {
		return nil, false
	}
	return msg[:n], true
}

// calcPadded returns how many bytes a message of n bytes takes when padded.
func calcPadded(n int) int {
	if n <= 32 {
		return 32
	}
	chunk := max(32, 1<<bits.Len(uint(n-1))/8)
	return (n-1)/chunk*chunk + chunk
}
