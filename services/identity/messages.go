package identity

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"

	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/btcsuite/btcd/btcec/v2/schnorr"

	"agent9/fsys"
)

// exchanged is the detail of the events identity.encrypted and identity.decrypted.
type exchanged struct {
	By    fsys.Caller `json:"by,omitempty"`
	With  string      `json:"with"` // the other's public key, 64 hex digits
	Bytes int         `json:"bytes"`
}

type encryptRequest struct {
	Recipient string `json:"recipient"`
	Message   string `json:"message"`
}

func (s *Service) encrypt(ctx context.Context, req []byte) ([]byte, error) {
	r, err := decode[encryptRequest](req, `{"recipient": …, "message": …}`)
	if err != nil {
		return nil, err
	}
	to, err := parsePoint("recipient", r.Recipient)
	if err != nil {
		return nil, err
	}
	if err := checkPlain(len(r.Message)); err != nil {
		return nil, err
	}
	conversation, err := s.conversation(to)
	if err != nil {
		return nil, err
	}
	defer clear(conversation)
	var nonce [nonceSize]byte
	rand.Read(nonce[:]) // never fails
	payload, err := sealPayload(conversation, nonce[:], []byte(r.Message))
	if err != nil {
		return nil, err
	}
	if err := s.exchanged(ctx, "identity.encrypted", to, len(r.Message)); err != nil {
		return nil, err
	}
	return append([]byte(payload), '\n'), nil
}

// checkPlain refuses a message that some reader of NIP-44 cannot take. Longer
// ones have a form in the newer text of the NIP, which decrypt reads.
func checkPlain(n int) error {
	switch {
	case n < minPlain:
		return fsys.E(fsys.Invalid, "message is empty or missing: NIP-44 has no encryption of nothing")
	case n > maxPlain:
		return fsys.E(fsys.TooLarge, fmt.Sprintf("message has %d bytes: NIP-44 takes up to %d", n, maxPlain))
	}
	return nil
}

type decryptRequest struct {
	Sender     string `json:"sender"`
	Ciphertext string `json:"ciphertext"`
}

func (s *Service) decrypt(ctx context.Context, req []byte) ([]byte, error) {
	r, err := decode[decryptRequest](req, `{"sender": …, "ciphertext": …}`)
	if err != nil {
		return nil, err
	}
	from, err := parsePoint("sender", r.Sender)
	if err != nil {
		return nil, err
	}
	conversation, err := s.conversation(from)
	if err != nil {
		return nil, err
	}
	defer clear(conversation)
	msg, err := openPayload(conversation, r.Ciphertext)
	if err != nil {
		return nil, err
	}
	if err := s.exchanged(ctx, "identity.decrypted", from, len(msg)); err != nil {
		return nil, err
	}
	return append(msg, '\n'), nil
}

// conversation returns the key that the agent and other share; the caller
// clears it.
func (s *Service) conversation(other *btcec.PublicKey) (conversation []byte, err error) {
	err = s.withKey(func(key *btcec.PrivateKey) (err error) {
		conversation, err = conversationKey(key, other)
		return err
	})
	return conversation, err
}

func (s *Service) exchanged(ctx context.Context, event string, with *btcec.PublicKey, n int) error {
	x := hex.EncodeToString(schnorr.SerializePubKey(with))
	return s.record(ctx, event, exchanged{fsys.CallerOf(ctx), x, n})
}
