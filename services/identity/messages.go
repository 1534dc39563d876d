package identity

import (
	"context"
	"encoding/hex"

	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/btcsuite/btcd/btcec/v2/schnorr"

	"agent9/fsys"
	"agent9/providers/nip44"
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
	if err := nip44.CheckPlain(len(r.Message)); err != nil {
		return nil, err
	}
	conversation, err := s.conversation(to)
	if err != nil {
		return nil, err
	}
	defer clear(conversation)
	payload, err := nip44.Seal(conversation, []byte(r.Message))
	if err != nil {
		return nil, err
	}
	if err := s.exchanged(ctx, "identity.encrypted", to, len(r.Message)); err != nil {
		return nil, err
	}
	return append([]byte(payload), '\n'), nil
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
	msg, err := nip44.Open(conversation, r.Ciphertext)
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
		conversation, err = nip44.Conversation(key, other)
		return err
	})
	return conversation, err
}

func (s *Service) exchanged(ctx context.Context, event string, with *btcec.PublicKey, n int) error {
	x := hex.EncodeToString(schnorr.SerializePubKey(with))
	return s.record(ctx, event, exchanged{fsys.CallerOf(ctx), x, n})
}
