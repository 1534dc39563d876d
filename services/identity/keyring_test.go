package identity

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agent9/fsys"
	"agent9/store/mem"
)

func TestKeyFileIsMadeOnce(t *testing.T) {
	st := mem.New()
	dir := t.TempDir()
	path := filepath.Join(dir, "master.key")
	ring := must(RingFromFile(t.Context(), st, path))(t)
	info := must(os.Stat(path))(t)
	if info.Mode() != 0o600 || info.Size() != 65 {
		t.Errorf("the key file has mode %v and %d bytes, want -rw------- and 65", info.Mode(), info.Size())
	}
	if left := must(os.ReadDir(dir))(t); len(left) != 1 {
		t.Errorf("%d files beside the key, want none", len(left)-1)
	}
	sealed := ring.seal([]byte("s"), "p")
	if err := os.WriteFile(path+".new-1", []byte("of a program that died"), 0o600); err != nil {
		t.Fatal(err)
	}
	again := must(RingFromFile(t.Context(), st, path))(t)
	if left := must(os.ReadDir(dir))(t); len(left) != 1 {
		t.Errorf("%d files beside the key after a restart, want none", len(left)-1)
	}
	if got := must(again.open(sealed, "p"))(t); string(got) != "s" {
		t.Errorf("opened %q after a restart, want s", got)
	}
	if _, err := again.open(sealed, "q"); err == nil {
		t.Error("opened for another purpose")
	}
}

func TestKeyFileIsUsedThatAStartLeft(t *testing.T) {
	path := filepath.Join(t.TempDir(), "master.key")
	key := must(createKeyFile(path))(t)
	ring := must(RingFromFile(t.Context(), mem.New(), path))(t)
	other := must(newRing(key))(t)
	if _, err := other.open(ring.seal(nil, "p"), "p"); err != nil {
		t.Error("a file that a start left before its record was not used")
	}
	if _, err := createKeyFile(path); !errors.Is(err, fsys.Exist) {
		t.Errorf("making a key over one that exists: %v, want %v", err, fsys.Exist)
	}
}

func TestKeyFileRefusals(t *testing.T) {
	good := strings.Repeat("0f", 32)
	for _, c := range []struct {
		name   string
		spoil  func(path string) error
		code   fsys.Code
		reason string
	}{
		{"missing", os.Remove, fsys.NotExist, "is missing, and the keys here are sealed under it"},
		{"for the group", func(p string) error { return os.Chmod(p, 0o640) }, fsys.Permission, "only its owner may read"},
		{"for all", func(p string) error { return os.Chmod(p, 0o604) }, fsys.Permission, "only its owner may read"},
		{"a directory", func(p string) error { return errors.Join(os.Remove(p), os.Mkdir(p, 0o700)) }, fsys.Permission, "only its owner may read"},
		{"another key", func(p string) error { return os.WriteFile(p, []byte(good), 0o600) }, fsys.Permission, "is not the one that the keys here were sealed under"},
		{"too short", func(p string) error { return os.WriteFile(p, []byte(good[1:]), 0o600) }, fsys.Invalid, "is damaged"},
		{"too long", func(p string) error { return os.WriteFile(p, []byte(good+"0\n"), 0o600) }, fsys.Invalid, "is damaged"},
		{"two lines", func(p string) error { return os.WriteFile(p, []byte(good+"\n\n"), 0o600) }, fsys.Invalid, "is damaged"},
		{"not hex", func(p string) error { return os.WriteFile(p, []byte("x"+good[1:]), 0o600) }, fsys.Invalid, "is damaged"},
		{"empty", func(p string) error { return os.Truncate(p, 0) }, fsys.Invalid, "is damaged"},
	} {
		t.Run(c.name, func(t *testing.T) {
			st := mem.New()
			path := filepath.Join(t.TempDir(), "master.key")
			must(RingFromFile(t.Context(), st, path))(t)
			if err := c.spoil(path); err != nil {
				t.Fatal(err)
			}
			before, _ := os.ReadFile(path)
			_, err := RingFromFile(t.Context(), st, path)
			if fsys.CodeOf(err) != c.code || !strings.Contains(fsys.ReasonOf(err), c.reason) {
				t.Errorf("%v: %s; want %v: …%s…", fsys.CodeOf(err), fsys.ReasonOf(err), c.code, c.reason)
			}
			if err != nil && strings.Contains(err.Error(), good[1:10]) {
				t.Errorf("the error quotes the file: %v", err)
			}
			if after, _ := os.ReadFile(path); string(after) != string(before) {
				t.Error("the file was changed")
			}
		})
	}
}

func TestPassphrase(t *testing.T) {
	st := mem.New()
	word := []byte("correct horse")
	ring := must(RingFromPassphrase(t.Context(), st, word))(t)
	if strings.Trim(string(word), "\x00") != "" {
		t.Error("the passphrase was not cleared")
	}
	sealed := ring.seal([]byte("s"), "p")
	again := must(RingFromPassphrase(t.Context(), st, []byte("correct horse")))(t)
	if got, err := again.open(sealed, "p"); err != nil || string(got) != "s" {
		t.Errorf("opened %q after a restart, %v", got, err)
	}
	if _, err := RingFromPassphrase(t.Context(), st, []byte("wrong horse")); !errors.Is(err, fsys.Permission) {
		t.Errorf("a wrong passphrase: %v, want %v", err, fsys.Permission)
	}
	path := filepath.Join(t.TempDir(), "master.key")
	if _, err := RingFromFile(t.Context(), st, path); !errors.Is(err, fsys.Invalid) {
		t.Errorf("a file instead of the passphrase: %v, want %v", err, fsys.Invalid)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("a key file was made beside a passphrase")
	}
	if _, err := RingFromPassphrase(t.Context(), st, nil); !errors.Is(err, fsys.Invalid) {
		t.Errorf("no passphrase: %v, want %v", err, fsys.Invalid)
	}
}

func TestPassphraseInsteadOfFile(t *testing.T) {
	st := mem.New()
	newRingForTest(t, st)
	if _, err := RingFromPassphrase(t.Context(), st, []byte("word")); !errors.Is(err, fsys.Invalid) {
		t.Errorf("%v, want %v", err, fsys.Invalid)
	}
}

func TestDamagedRing(t *testing.T) {
	for _, rec := range []string{`{"version":9}`, `{"ver`, `{"version":1,"argon2id":{"passes":1,"memory_kib":4294967295,"lanes":1}}`} {
		st := mem.New()
		if err := st.Put(t.Context(), ringKey, []byte(rec)); err != nil {
			t.Fatal(err)
		}
		if _, err := RingFromPassphrase(t.Context(), st, []byte("word")); fsys.CodeOf(err) != fsys.Internal {
			t.Errorf("%s: %v, want %v", rec, err, fsys.Internal)
		}
	}
}

func TestTakePassphrase(t *testing.T) {
	file := filepath.Join(t.TempDir(), "word")
	if err := os.WriteFile(file, []byte("from file\nmore\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, []byte("\nmore\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		env  map[string]string
		want string
		code fsys.Code
	}{
		{env: map[string]string{passphraseVar: "from env"}, want: "from env"},
		{env: map[string]string{passphraseFileVar: file}, want: "from file"},
		{env: map[string]string{}},
		{env: map[string]string{passphraseVar: ""}, code: fsys.Invalid},
		{env: map[string]string{passphraseVar: "a", passphraseFileVar: file}, code: fsys.Invalid},
		{env: map[string]string{passphraseFileVar: empty}, code: fsys.Invalid},
		{env: map[string]string{passphraseFileVar: file + "x"}, code: fsys.NotExist},
	} {
		for _, name := range []string{passphraseVar, passphraseFileVar} {
			t.Setenv(name, "") // so that it is put back afterwards
			os.Unsetenv(name)
			if v, ok := c.env[name]; ok {
				os.Setenv(name, v)
			}
		}
		got, err := TakePassphrase()
		if string(got) != c.want || (err != nil || c.code != 0) && fsys.CodeOf(err) != c.code {
			t.Errorf("%v: %q, %v; want %q, %v", c.env, got, err, c.want, c.code)
		}
		for _, e := range os.Environ() {
			if strings.HasPrefix(e, passphraseVar) {
				t.Errorf("%v: programs would inherit %s", c.env, e)
			}
		}
	}
}

func TestRingIsNotPrinted(t *testing.T) {
	key := unhex(t, strings.Repeat("a7", 32))
	ring := must(newRing(append([]byte(nil), key...)))(t)
	var log strings.Builder
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "ring", ring, "in", struct{ Ring *KeyRing }{ring})
	b, err := json.Marshal(map[string]any{"ring": ring, "value": *ring})
	if err != nil {
		t.Fatal(err)
	}
	all := log.String() + string(b)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%p"} {
		all += fmt.Sprintf(verb, ring) + fmt.Sprintf(verb, *ring) + fmt.Sprintf(verb, struct{ r KeyRing }{*ring})
	}
	for _, form := range append(keyForms(key), hex.EncodeToString(key[:4]), "167 167") {
		if strings.Contains(strings.ToLower(all), strings.ToLower(form)) {
			t.Errorf("the master key is printed: %s", form)
		}
	}
	if strings.Count(all, hidden) < 10 {
		t.Errorf("the ring is not printed as %q: %s", hidden, all)
	}
}
