package nip44

import (
	"crypto/sha256"
	_ "embed"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/btcsuite/btcd/btcec/v2/schnorr"

	"agent9/fsys"
)

//go:embed testdata/nip44.vectors.json
var nip44JSON []byte

type nip44Vector struct {
	Sec1            string `json:"sec1"`
	Sec2            string `json:"sec2"`
	Pub2            string `json:"pub2"`
	ConversationKey string `json:"conversation_key"`
	Nonce           string `json:"nonce"`
	ChachaKey       string `json:"chacha_key"`
	ChachaNonce     string `json:"chacha_nonce"`
	HMACKey         string `json:"hmac_key"`
	Plaintext       string `json:"plaintext"`
	Payload         string `json:"payload"`
	Note            string `json:"note"`
	Pattern         string `json:"pattern"`
	Repeat          int    `json:"repeat"`
	PlaintextSHA256 string `json:"plaintext_sha256"`
	PayloadSHA256   string `json:"payload_sha256"`
}

func TestNIP44(t *testing.T) {
	var sections map[string][]nip44Vector
	if err := json.Unmarshal(nip44JSON, &sections); err != nil {
		t.Fatal(err)
	}
	checks := map[string]struct {
		n     int
		check func(*testing.T, nip44Vector)
	}{
		"conversation_key":     {35, checkConversationKey},
		"message_keys":         {32, checkMessageKeys},
		"encrypt_decrypt":      {11, checkEncryptDecrypt},
		"encrypt_decrypt_long": {3, checkLong},
		"invalid_payload":      {12, checkInvalidPayload},
	}
	for name, c := range checks {
		if len(sections[name]) != c.n {
			t.Errorf("%s: %d vectors, want %d", name, len(sections[name]), c.n)
		}
		for i, v := range sections[name] {
			t.Run(fmt.Sprint(name, i), func(t *testing.T) { c.check(t, v) })
		}
	}
}

func checkConversationKey(t *testing.T, v nip44Vector) {
	other, err := schnorr.ParsePubKey(unhex(t, v.Pub2))
	if err != nil {
		t.Fatal(err)
	}
	wantHex(t, "conversation key", must(Conversation(mustKey(t, v.Sec1), other))(t), v.ConversationKey)
}

func checkMessageKeys(t *testing.T, v nip44Vector) {
	k := must(deriveKeys(unhex(t, v.ConversationKey), unhex(t, v.Nonce)))(t)
	wantHex(t, "chacha key", k.cipher, v.ChachaKey)
	wantHex(t, "chacha nonce", k.cipherNonce, v.ChachaNonce)
	wantHex(t, "hmac key", k.mac, v.HMACKey)
}

func checkEncryptDecrypt(t *testing.T, v nip44Vector) {
	conversation := must(Conversation(mustKey(t, v.Sec1), mustKey(t, v.Sec2).PubKey()))(t)
	wantHex(t, "conversation key", conversation, v.ConversationKey)
	if got := must(seal(conversation, unhex(t, v.Nonce), []byte(v.Plaintext)))(t); got != v.Payload {
		t.Errorf("payload %s, want %s", got, v.Payload)
	}
	if got := must(Open(conversation, v.Payload))(t); string(got) != v.Plaintext {
		t.Errorf("message %q, want %q", got, v.Plaintext)
	}
}

func checkLong(t *testing.T, v nip44Vector) {
	msg := strings.Repeat(v.Pattern, v.Repeat)
	wantHex(t, "message", sum(msg), v.PlaintextSHA256)
	if err := CheckPlain(len(msg)); err != nil {
		t.Error(err)
	}
	conversation := unhex(t, v.ConversationKey)
	payload := must(seal(conversation, unhex(t, v.Nonce), []byte(msg)))(t)
	wantHex(t, "payload", sum(payload), v.PayloadSHA256)
	if got := must(Open(conversation, payload))(t); string(got) != msg {
		t.Error("the message is another one after decryption")
	}
}

func checkInvalidPayload(t *testing.T, v nip44Vector) {
	if got, err := Open(unhex(t, v.ConversationKey), v.Payload); err == nil {
		t.Errorf("decrypted to %q, want a refusal: %s", got, v.Note)
	}
}

func TestNIP44Lengths(t *testing.T) {
	for n, want := range map[int]int{
		16: 32, 32: 32, 33: 64, 37: 64, 45: 64, 49: 64, 64: 64, 65: 96, 100: 128, 111: 128, 200: 224, 250: 256,
		320: 320, 383: 384, 384: 384, 400: 448, 500: 512, 512: 512, 515: 640, 700: 768, 800: 896, 900: 1024,
		1020: 1024, 65536: 65536,
	} {
		if got := calcPadded(n); got != want {
			t.Errorf("%d bytes are padded to %d, want %d", n, got, want)
		}
	}
	for _, n := range []int{0, 65536, 100000, 10000000} {
		if CheckPlain(n) == nil {
			t.Errorf("a message of %d bytes was taken", n)
		}
	}
}

// Payloads that this package does not make.
func TestOpenWhatOthersPad(t *testing.T) {
	conversation := must(Conversation(mustKey(t, strings.Repeat("07", 32)), mustKey(t, strings.Repeat("08", 32)).PubKey()))(t)
	open := func(prefix []byte, msg string) (string, error) {
		padded := append(prefix, make([]byte, calcPadded(len(msg)))...)
		copy(padded[len(prefix):], msg)
		got, err := Open(conversation, must(sealPadded(conversation, make([]byte, nonceSize), padded))(t))
		return string(got), err
	}
	extended := func(n int) []byte { return binary.BigEndian.AppendUint32([]byte{0, 0}, uint32(n)) }
	long := strings.Repeat("m", MaxPlain+1)
	if got, err := open(extended(len(long)), long); err != nil || got != long {
		t.Errorf("%d bytes: got %d bytes, %v", len(long), len(got), err)
	}
	for reason, c := range map[string]struct {
		prefix []byte
		msg    string
	}{
		"the padding of ciphertext is wrong":          {extended(MaxPlain), long[1:]},
		"the message in ciphertext is not UTF-8 text": {[]byte{0, 1}, "\xff"},
	} {
		if _, err := open(c.prefix, c.msg); fsys.CodeOf(err) != fsys.Invalid || fsys.ReasonOf(err) != reason {
			t.Errorf("%v, want %v: %s", err, fsys.Invalid, reason)
		}
	}
}

func sum(s string) []byte {
	h := sha256.Sum256([]byte(s))
	return h[:]
}

func wantHex(t *testing.T, what string, got []byte, want string) {
	t.Helper()
	if hex.EncodeToString(got) != want {
		t.Errorf("%s %x, want %s", what, got, want)
	}
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func mustKey(t *testing.T, s string) *btcec.PrivateKey {
	t.Helper()
	key, _ := btcec.PrivKeyFromBytes(unhex(t, s))
	return key
}

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
