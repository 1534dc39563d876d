package identity

import (
	"crypto/sha256"
	_ "embed"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/btcsuite/btcd/btcec/v2"
)

//go:embed testdata/bip340.vectors.csv
var bip340 string

func TestBIP340(t *testing.T) {
	rows, err := csv.NewReader(strings.NewReader(bip340)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	signed := 0
	for _, row := range rows[1:] {
		t.Run(row[0], func(t *testing.T) {
			digest, sig := [32]byte(unhex(t, row[4])), unhex(t, row[5])
			if got := fmt.Sprint(verifyDigest(pubkey(unhex(t, row[2])), digest, sig)); !strings.EqualFold(got, row[6]) {
				t.Errorf("verified: %s, want %s", got, row[6])
			}
			if row[1] == "" {
				return
			}
			signed++
			got, err := signDigest(mustKey(t, row[1]), digest, [32]byte(unhex(t, row[3])))
			if err != nil {
				t.Fatal(err)
			}
			if hex.EncodeToString(got) != strings.ToLower(row[5]) {
				t.Errorf("signature %x, want %s", got, row[5])
			}
		})
	}
	if len(rows) != 16 || signed != 4 {
		t.Errorf("%d vectors, %d of them signed; want 15 and 4", len(rows)-1, signed)
	}
}

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
		"conversation_key":         {35, checkConversationKey},
		"invalid_conversation_key": {8, checkInvalidConversationKey},
		"message_keys":             {32, checkMessageKeys},
		"encrypt_decrypt":          {11, checkEncryptDecrypt},
		"encrypt_decrypt_long":     {3, checkLong},
		"invalid_payload":          {12, checkInvalidPayload},
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
	other, err := parsePoint("pub2", v.Pub2)
	if err != nil {
		t.Fatal(err)
	}
	wantHex(t, "conversation key", must(conversationKey(mustKey(t, v.Sec1), other))(t), v.ConversationKey)
}

func checkInvalidConversationKey(t *testing.T, v nip44Vector) {
	_, errKey := privateKey(unhex(t, v.Sec1))
	_, errPub := parsePoint("pub2", v.Pub2)
	if errKey == nil && errPub == nil {
		t.Error("both keys were taken")
	}
}

func TestPrivateKeyRange(t *testing.T) {
	const order = "fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141"
	for _, digits := range []string{strings.Repeat("0", 64), order, strings.Repeat("f", 64), strings.Repeat("1", 62)} {
		if _, err := privateKey(unhex(t, digits)); err == nil {
			t.Errorf("%s was taken for a private key", digits)
		}
	}
	mustKey(t, order[:63]+"0")
}

func checkMessageKeys(t *testing.T, v nip44Vector) {
	k := must(deriveKeys(unhex(t, v.ConversationKey), unhex(t, v.Nonce)))(t)
	wantHex(t, "chacha key", k.cipher, v.ChachaKey)
	wantHex(t, "chacha nonce", k.cipherNonce, v.ChachaNonce)
	wantHex(t, "hmac key", k.mac, v.HMACKey)
}

func checkEncryptDecrypt(t *testing.T, v nip44Vector) {
	conversation := must(conversationKey(mustKey(t, v.Sec1), mustKey(t, v.Sec2).PubKey()))(t)
	wantHex(t, "conversation key", conversation, v.ConversationKey)
	if got := must(sealPayload(conversation, unhex(t, v.Nonce), []byte(v.Plaintext)))(t); got != v.Payload {
		t.Errorf("payload %s, want %s", got, v.Payload)
	}
	if got := must(openPayload(conversation, v.Payload))(t); string(got) != v.Plaintext {
		t.Errorf("message %q, want %q", got, v.Plaintext)
	}
}

func checkLong(t *testing.T, v nip44Vector) {
	msg := strings.Repeat(v.Pattern, v.Repeat)
	wantHex(t, "message", sum(msg), v.PlaintextSHA256)
	if err := checkPlain(len(msg)); err != nil {
		t.Error(err)
	}
	conversation := unhex(t, v.ConversationKey)
	payload := must(sealPayload(conversation, unhex(t, v.Nonce), []byte(msg)))(t)
	wantHex(t, "payload", sum(payload), v.PayloadSHA256)
	if got := must(openPayload(conversation, payload))(t); string(got) != msg {
		t.Error("the message is another one after decryption")
	}
}

func checkInvalidPayload(t *testing.T, v nip44Vector) {
	if got, err := openPayload(unhex(t, v.ConversationKey), v.Payload); err == nil {
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
		if checkPlain(n) == nil {
			t.Errorf("a message of %d bytes was taken", n)
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
	key, err := privateKey(unhex(t, s))
	if err != nil {
		t.Fatal(err)
	}
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
