package identity

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/btcsuite/btcd/btcec/v2"

	"agent9/fsys"
	"agent9/fsys/fstest"
	"agent9/providers/nip44"
	"agent9/store"
	"agent9/store/mem"
)

func newRingForTest(t *testing.T, st store.Store) *KeyRing {
	t.Helper()
	return must(RingFromFile(t.Context(), st, filepath.Join(t.TempDir(), "master.key")))(t)
}

// newAgent creates and opens an identity in a view of its own.
func newAgent(t *testing.T, st store.Updater, ring *KeyRing, name string, note store.Note) *Service {
	t.Helper()
	own := store.Sub(st, "agents/"+name+"/identity/")
	err := st.Update(t.Context(), func(tx store.Store) error {
		_, err := Create(t.Context(), store.In(tx, own), ring, name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return must(Open(t.Context(), own, ring, name, note))(t)
}

func read(t *testing.T, s *Service, file string) string {
	t.Helper()
	return string(must(fsys.ReadFile(t.Context(), s.Root(), file))(t))
}

func ask(t *testing.T, s *Service, file, req string) string {
	t.Helper()
	return string(must(fsys.Converse(t.Context(), s.Root(), file, []byte(req)))(t))
}

func request(fields ...string) string {
	m := map[string]string{}
	for i := 0; i < len(fields); i += 2 {
		m[fields[i]] = fields[i+1]
	}
	return string(fsys.Line(m))
}

func TestTree(t *testing.T) {
	st := mem.New()
	s := newAgent(t, st, newRingForTest(t, st), "alice", nil)
	if err := fstest.CheckTree(t.Context(), s.Root(), "pubkey", "npub", "sign", "verify", "encrypt", "decrypt"); err != nil {
		t.Error(err)
	}
	if got := read(t, s, "pubkey"); got != s.Pubkey()+"\n" || len(got) != 65 {
		t.Errorf("pubkey is %q, want %q and a newline", got, s.Pubkey())
	}
	x := must(parsePubkey("npub", read(t, s, "npub")))(t)
	wantHex(t, "npub", x[:], s.Pubkey())
	for file, want := range map[string]fsys.Effect{
		"sign": fsys.Signs, "verify": fsys.Computes, "encrypt": fsys.Changes, "decrypt": fsys.Changes,
	} {
		n := must(fsys.WalkPath(t.Context(), s.Root(), file))(t)
		if info := must(n.Stat(t.Context()))(t); info.Effect != want || info.Kind != fsys.Message {
			t.Errorf("%s: effect %v, kind %v; want effect %v of a message", file, info.Effect, info.Kind, want)
		}
	}
}

// TestNpub is the example of NIP-19.
func TestNpub(t *testing.T) {
	const digits = "7e7e9c42a91bfef19fa929e5fda1b72e0ebc1a4c1141673e2794234d86addf4e"
	const want = "npub10elfcs4fr0l0r8af98jlmgdh9c8tcxjvz9qkw038js35mp4dma8qzvjptg"
	if got := npub(pubkey(unhex(t, digits))); got != want {
		t.Errorf("npub of %s is %s, want %s", digits, got, want)
	}
	x := must(parsePubkey("x", want))(t)
	wantHex(t, "x", x[:], digits)
}

func TestSignEveryByte(t *testing.T) {
	st := mem.New()
	s := newAgent(t, st, newRingForTest(t, st), "alice", nil)
	verified := func(sig, message string) string {
		return ask(t, s, "verify", request("pubkey", s.Pubkey(), "signature", strings.TrimSpace(sig), "message", message))
	}
	for _, msg := range []string{"hi", "hi\n", ` {"a":1} `, "[", "\n", strings.Repeat("long ", 1000)} {
		sig := ask(t, s, "sign", msg)
		if len(sig) != 129 {
			t.Fatalf("signature %q, want 128 hex digits and a newline", sig)
		}
		if verified(sig, msg) != "true\n" {
			t.Errorf("the signature of %q does not verify", msg)
		}
		if verified(sig, msg+"\n") != "false\n" {
			t.Errorf("the signature of %q verifies with one more newline", msg)
		}
	}
	a, b := ask(t, s, "sign", "hi"), ask(t, s, "sign", "hi")
	if a == b {
		t.Error("two signatures of one message are the same: the randomness is not fresh")
	}
}

func TestVerify(t *testing.T) {
	st := mem.New()
	ring := newRingForTest(t, st)
	alice, bob := newAgent(t, st, ring, "alice", nil), newAgent(t, st, ring, "bob", nil)
	binary := "\x00\xff\xfe"
	sig := strings.TrimSpace(ask(t, alice, "sign", binary))
	digest := hex.EncodeToString(sum(binary))
	npub := strings.TrimSpace(read(t, alice, "npub"))
	offCurve := strings.Repeat("0", 64)
	for _, c := range []struct{ name, key, sig, digest, want string }{
		{"hex key", alice.Pubkey(), sig, digest, "true\n"},
		{"npub", npub, sig, digest, "true\n"},
		{"upper case", strings.ToUpper(alice.Pubkey()), strings.ToUpper(sig), strings.ToUpper(digest), "true\n"},
		{"another key", bob.Pubkey(), sig, digest, "false\n"},
		{"a key that does not exist", offCurve, sig, digest, "false\n"},
		{"another message", alice.Pubkey(), sig, hex.EncodeToString(sum("x")), "false\n"},
		{"s of the order's size", alice.Pubkey(), sig[:64] + strings.Repeat("f", 64), digest, "false\n"},
	} {
		if got := ask(t, bob, "verify", request("pubkey", c.key, "signature", c.sig, "sha256", c.digest)); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestEncryptForAnother(t *testing.T) {
	st := mem.New()
	ring := newRingForTest(t, st)
	alice, bob, eve := newAgent(t, st, ring, "alice", nil), newAgent(t, st, ring, "bob", nil), newAgent(t, st, ring, "eve", nil)
	for _, msg := range []string{"a", "line\nline\n", "表ポあ 🍕", strings.Repeat("x", nip44.MaxPlain)} {
		payload := ask(t, alice, "encrypt", request("recipient", strings.TrimSpace(read(t, bob, "npub")), "message", msg))
		if got := ask(t, bob, "decrypt", request("sender", alice.Pubkey(), "ciphertext", payload)); got != msg+"\n" {
			t.Errorf("bob read %.40q, want %.40q and a newline", got, msg)
		}
		if got := ask(t, alice, "decrypt", request("sender", bob.Pubkey(), "ciphertext", payload)); got != msg+"\n" {
			t.Errorf("alice read %.40q of her own message %.40q", got, msg)
		}
		_, err := fsys.Converse(t.Context(), eve.Root(), "decrypt", []byte(request("sender", alice.Pubkey(), "ciphertext", payload)))
		if fsys.CodeOf(err) != fsys.Invalid {
			t.Errorf("eve: %v, want a refusal", err)
		}
	}
}

func TestRefusals(t *testing.T) {
	st := mem.New()
	s := newAgent(t, st, newRingForTest(t, st), "alice", nil)
	sig := strings.Repeat("1", 128)
	nsec := "nsec1vl029mgpspedva04g90vltkh6fvh240zqtv9k0t9af8935ke9laqsnlfe5" // the example of NIP-19
	for _, c := range []struct {
		file, req, reason string
		code              fsys.Code
	}{
		{"encrypt", `{"recipient":"bob","message":"m"}`, "recipient is not a public key: want 64 hex digits or npub1…", fsys.Invalid},
		{"encrypt", request("recipient", nsec, "message", "m"), "recipient is not a public key: want 64 hex digits or npub1…", fsys.Invalid},
		{"encrypt", request("recipient", strings.Repeat("0", 64), "message", "m"), "recipient is not a public key: no point of secp256k1 has this x coordinate", fsys.Invalid},
		{"encrypt", request("recipient", s.Pubkey(), "message", ""), "message is empty or missing: NIP-44 has no encryption of nothing", fsys.Invalid},
		{"encrypt", request("recipient", s.Pubkey(), "message", strings.Repeat("é", 32768)), "message has 65536 bytes: NIP-44 takes up to 65535", fsys.TooLarge},
		{"encrypt", `{"recipient":"` + s.Pubkey() + `","message":"` + "\xff" + `"}`, "the request is not UTF-8 text", fsys.Invalid},
		{"encrypt", `{"recipient":"` + s.Pubkey() + `","mesage":"m"}`, `unknown field "mesage"; want {"recipient": …, "message": …}`, fsys.Invalid},
		{"encrypt", `{"recipient":7}`, `recipient: a string is expected, not a number; want {"recipient": …, "message": …}`, fsys.Invalid},
		{"encrypt", `[1]`, `an object is expected, not an array; want {"recipient": …, "message": …}`, fsys.Invalid},
		{"encrypt", `hello`, `invalid character 'h' looking for beginning of value; want {"recipient": …, "message": …}`, fsys.Invalid},
		{"encrypt", `null null`, `there is more after the JSON value; want {"recipient": …, "message": …}`, fsys.Invalid},
		{"decrypt", request("sender", "x", "ciphertext", "x"), "sender is not a public key: want 64 hex digits or npub1…", fsys.Invalid},
		{"decrypt", request("sender", s.Pubkey()), "ciphertext is empty or missing", fsys.Invalid},
		{"decrypt", request("sender", s.Pubkey(), "ciphertext", strings.Repeat("\n", 132)), "ciphertext is empty or missing", fsys.Invalid},
		{"decrypt", request("sender", s.Pubkey(), "ciphertext", "A\nA=="), "ciphertext is not base64", fsys.Invalid},
		{"decrypt", request("sender", s.Pubkey(), "ciphertext", "#Ag=="), "ciphertext is of an encryption version that is not known here", fsys.Invalid},
		{"decrypt", request("sender", s.Pubkey(), "ciphertext", "AQ=="), "ciphertext is of an encryption version that is not known here", fsys.Invalid},
		{"decrypt", request("sender", s.Pubkey(), "ciphertext", "Ag=="), "ciphertext is too short for a NIP-44 payload", fsys.Invalid},
		{"decrypt", request("sender", s.Pubkey(), "ciphertext", "Ag"+strings.Repeat("A", 130)), "ciphertext is not from this sender to this agent, or was changed on the way", fsys.Invalid},
		{"verify", request("pubkey", "x", "signature", sig, "message", "m"), "pubkey is not a public key: want 64 hex digits or npub1…", fsys.Invalid},
		{"verify", request("pubkey", s.Pubkey(), "signature", "x", "message", "m"), "signature is not one: want 128 hex digits", fsys.Invalid},
		{"verify", request("pubkey", s.Pubkey(), "signature", sig[:64], "message", "m"), "signature is not one: want 128 hex digits", fsys.Invalid},
		{"verify", request("pubkey", s.Pubkey(), "signature", sig), `give either message or sha256; want {"pubkey": …, "signature": …, "message": …}`, fsys.Invalid},
		{"verify", request("pubkey", s.Pubkey(), "signature", sig, "message", "m", "sha256", "00"), `give either message or sha256; want {"pubkey": …, "signature": …, "message": …}`, fsys.Invalid},
		{"verify", request("pubkey", s.Pubkey(), "signature", sig, "sha256", "00"), "sha256 is not a digest: want 64 hex digits", fsys.Invalid},
	} {
		_, err := fsys.Converse(t.Context(), s.Root(), c.file, []byte(c.req))
		if fsys.CodeOf(err) != c.code || fsys.ReasonOf(err) != c.reason {
			t.Errorf("%s %.60q:\n got %v: %s\nwant %v: %s", c.file, c.req, fsys.CodeOf(err), fsys.ReasonOf(err), c.code, c.reason)
		}
	}
}

func TestUseIsOnRecord(t *testing.T) {
	var events []string
	var broken error
	note := func(_ store.Store, event string, detail any) error {
		b, err := json.Marshal(detail)
		events = append(events, event+" "+string(b))
		return errors.Join(err, broken)
	}
	st := mem.New()
	ring := newRingForTest(t, st)
	s, bob := newAgent(t, st, ring, "alice", note), newAgent(t, st, ring, "bob", nil)
	ctx := fsys.WithCaller(t.Context(), "carol")
	use := func(file, req string) (string, error) {
		reply, err := fsys.Converse(ctx, s.Root(), file, []byte(req))
		return string(reply), err
	}
	toBob, fromBob := request("recipient", bob.Pubkey(), "message", "secret"), ""
	fromBob = request("sender", bob.Pubkey(), "ciphertext", ask(t, bob, "encrypt", request("recipient", s.Pubkey(), "message", "secret")))
	requests := [][2]string{{"sign", "hi"}, {"encrypt", toBob}, {"decrypt", fromBob}}
	for _, r := range requests {
		must(use(r[0], r[1]))(t)
	}
	want := []string{
		fmt.Sprintf(`identity.signed {"by":"carol","sha256":"%x","bytes":2}`, sum("hi")),
		fmt.Sprintf(`identity.encrypted {"by":"carol","with":%q,"bytes":6}`, bob.Pubkey()),
		fmt.Sprintf(`identity.decrypted {"by":"carol","with":%q,"bytes":6}`, bob.Pubkey()),
	}
	if strings.Join(events, "\n") != strings.Join(want, "\n") {
		t.Errorf("events:\n%s\nwant:\n%s", strings.Join(events, "\n"), strings.Join(want, "\n"))
	}
	broken = fsys.NoSpace
	for _, r := range requests {
		if got, err := use(r[0], r[1]); got != "" || !errors.Is(err, fsys.NoSpace) {
			t.Errorf("%s that could not be recorded: reply %q, %v; want no reply and %v", r[0], got, err, fsys.NoSpace)
		}
	}
}

func TestKeyIsMadeOnceAndKept(t *testing.T) {
	st := mem.New()
	ring := newRingForTest(t, st)
	s := newAgent(t, st, ring, "alice", nil)
	own := store.Sub(st, "agents/alice/identity/")
	if _, err := Create(t.Context(), own, ring, "alice"); !errors.Is(err, fsys.Exist) {
		t.Errorf("a second key: %v, want %v", err, fsys.Exist)
	}
	again := must(Open(t.Context(), own, ring, "alice", nil))(t)
	if again.Pubkey() != s.Pubkey() {
		t.Error("another key after opening again")
	}
	if _, err := Open(t.Context(), store.Sub(st, "agents/bob/identity/"), ring, "bob", nil); !errors.Is(err, fsys.NotExist) {
		t.Errorf("an agent without a key: %v, want %v", err, fsys.NotExist)
	}
}

// TestKeyIsBound moves alice's record to bob, and puts another public key
// into it.
func TestKeyIsBound(t *testing.T) {
	st := mem.New()
	ring := newRingForTest(t, st)
	newAgent(t, st, ring, "alice", nil)
	bob := newAgent(t, st, ring, "bob", nil)
	rec := must(st.Get(t.Context(), "agents/alice/identity/key"))(t)
	forged := store.Sub(st, "forged/")
	put := func(b []byte) {
		if err := forged.Put(t.Context(), recordKey, b); err != nil {
			t.Fatal(err)
		}
	}
	sign := func(agent string) error {
		s := must(Open(t.Context(), forged, ring, agent, nil))(t)
		_, err := fsys.Converse(t.Context(), s.Root(), "sign", []byte("hi"))
		return err
	}
	put(rec)
	if err := sign("alice"); err != nil {
		t.Errorf("alice with her own record: %v", err)
	}
	if err := sign("bob"); fsys.CodeOf(err) != fsys.Internal {
		t.Errorf("bob with alice's record: %v, want a refusal", err)
	}
	var r record
	if err := json.Unmarshal(rec, &r); err != nil {
		t.Fatal(err)
	}
	r.Pubkey = bob.Pubkey()
	put(fsys.Line(r))
	if err := sign("alice"); fsys.CodeOf(err) != fsys.Internal {
		t.Errorf("alice with another public key: %v, want a refusal", err)
	}
	put([]byte(`{"version":2}`))
	if _, err := Open(t.Context(), forged, ring, "alice", nil); fsys.CodeOf(err) != fsys.Internal {
		t.Errorf("a record of another version: %v, want a refusal", err)
	}
}

// TestNothingShowsTheKey looks for the private key in every form in all that
// is stored, served and printed.
func TestNothingShowsTheKey(t *testing.T) {
	st := mem.New()
	ring := newRingForTest(t, st)
	var seen strings.Builder
	s := newAgent(t, st, ring, "alice", func(_ store.Store, event string, detail any) error {
		fmt.Fprintf(&seen, "%s %+v", event, detail)
		return nil
	})
	ask(t, s, "sign", "hi")
	payload := ask(t, s, "encrypt", request("recipient", s.Pubkey(), "message", "hi"))
	ask(t, s, "decrypt", request("sender", s.Pubkey(), "ciphertext", payload))
	for _, v := range []any{s, *s, ring, *ring, struct{ r *KeyRing }{ring}} {
		fmt.Fprintf(&seen, "%v %+v %#v %s %x %d", v, v, v, v, v, v)
	}
	for _, p := range must(st.List(t.Context(), "", "", 100))(t) {
		fmt.Fprintf(&seen, "%s %s", p.Key, p.Value)
	}
	for _, e := range must(fsys.List(t.Context(), s.Root()))(t) {
		b, err := fsys.ReadFile(t.Context(), s.Root(), e.Name)
		fmt.Fprintf(&seen, "%s %v", b, err)
	}
	err := s.withKey(func(key *btcec.PrivateKey) error {
		for _, form := range keyForms(key.Serialize()) {
			if strings.Contains(seen.String(), form) {
				t.Error("the private key can be seen")
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(seen.String(), s.Pubkey()) || !strings.Contains(seen.String(), hidden) {
		t.Error("this test has not looked at anything")
	}
}

func keyForms(key []byte) []string {
	b, _ := json.Marshal(key)
	return []string{
		string(key), hex.EncodeToString(key), strings.ToUpper(hex.EncodeToString(key)), strings.Trim(string(b), `"`),
		strings.Trim(fmt.Sprint(key), "[]"), fmt.Sprintf("%#v", key),
	}
}
