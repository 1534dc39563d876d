package identity

import (
	"crypto/sha256"
	_ "embed"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
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

// Neither of the keys that NIP-44 refuses is taken.
func TestInvalidKeys(t *testing.T) {
	vectors, err := os.ReadFile("../../providers/nip44/testdata/nip44.vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var sections map[string][]struct{ Sec1, Pub2 string }
	if err := json.Unmarshal(vectors, &sections); err != nil {
		t.Fatal(err)
	}
	list := sections["invalid_conversation_key"]
	for _, v := range list {
		_, errKey := privateKey(unhex(t, v.Sec1))
		_, errPub := parsePoint("pub2", v.Pub2)
		if errKey == nil && errPub == nil {
			t.Errorf("both keys were taken: %+v", v)
		}
	}
	if len(list) != 8 {
		t.Errorf("%d vectors, want 8", len(list))
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
