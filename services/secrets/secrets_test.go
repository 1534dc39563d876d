package secrets_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agent9/fsys"
	"agent9/fsys/fstest"
	"agent9/services/identity"
	"agent9/services/secrets"
	"agent9/store"
	"agent9/store/mem"
)

const canary = "c4nary-v4lue"

// bound lets every secret here be used for two things.
func bound() map[string]json.RawMessage {
	b := json.RawMessage(`{"uses":["git","env"],"hosts":["example.com"]}`)
	return map[string]json.RawMessage{"github": b, "key": b, "other": b}
}

type fixture struct {
	*testing.T
	st     store.Updater
	ring   *identity.KeyRing
	s      *secrets.Service
	events []string
}

func newFixture(t *testing.T) *fixture {
	f := &fixture{T: t, st: mem.New()}
	var err error
	f.ring, err = identity.RingFromFile(t.Context(), mem.New(), filepath.Join(t.TempDir(), "key"))
	require.NoError(t, err)
	f.s = secrets.Open(secrets.Config{
		Store: f.st, Box: f.ring.Box("secrets"), Agent: "alice", Now: time.Now, Bindings: bound,
		Note: func(_ store.Store, event string, detail any) error {
			b, err := json.Marshal(detail)
			f.events = append(f.events, event+" "+string(b))
			return err
		},
	})
	return f
}

func (f *fixture) write(name, value string) error {
	ctx := fsys.WithCaller(f.Context(), fsys.Operator)
	_, h, err := fsys.OpenCreate(ctx, f.s.Root(), name, 0o600, fsys.Write|fsys.Trunc)
	if err != nil {
		return err
	}
	if _, err := fsys.WriteAt(ctx, h, []byte(value), 0); err != nil {
		h.Close()
		return err
	}
	return fsys.Finish(ctx, h)
}

func (f *fixture) get(name string) string {
	f.Helper()
	b, err := f.s.Get(f.Context(), name, secrets.Git, "https://example.com/x")
	require.NoError(f, err)
	return string(b)
}

func TestSecrets(t *testing.T) {
	f := newFixture(t)
	require.NoError(t, f.write("github", canary+"\n"))
	require.Equal(t, canary, f.get("github"))
	require.NoError(t, f.write("key", "[\"not\" json\n\n"))
	require.Equal(t, "[\"not\" json\n", f.get("key"))
	require.NoError(t, f.write("github", canary+"2"))
	require.Equal(t, canary+"2", f.get("github"))

	_, err := fsys.OpenPath(t.Context(), f.s.Root(), "github", fsys.Read|fsys.Write)
	require.ErrorIs(t, err, fsys.Permission)
	require.Equal(t, "a secret cannot be read, by anybody; write it to set it anew", fsys.ReasonOf(err))
	require.NoError(t, fstest.CheckTree(t.Context(), f.s.Root(), "github"))

	n, err := fsys.Walk(t.Context(), f.s.Root(), "github")
	require.NoError(t, err)
	info, err := n.Stat(t.Context())
	require.NoError(t, err)
	require.Zero(t, info.Size)
	require.NoError(t, fsys.Remove(t.Context(), n))
	require.ErrorIs(t, fsys.Remove(t.Context(), n), fsys.NotExist)
	_, err = f.s.Get(t.Context(), "github", secrets.Git, "https://example.com/x")
	require.ErrorIs(t, err, fsys.NotExist)
	require.Equal(t, []string{
		`secret.set {"secret":"github","by":"operator"}`, `secret.set {"secret":"key","by":"operator"}`,
		`secret.set {"secret":"github","by":"operator"}`, `secret.removed {"secret":"github"}`,
	}, f.events)
}

func TestRefusedSecrets(t *testing.T) {
	f := newFixture(t)
	for _, row := range []struct {
		name, value, reason string
		code                fsys.Code
	}{
		{"a", "\n", "a secret cannot be empty; rm removes it", fsys.Invalid},
		{"a", strings.Repeat(canary, 6000), "the request is longer than this file accepts", fsys.TooLarge},
		{"a", "short", "a secret has at least 6 bytes: a shorter one cannot be told from other text, and taken out of what programs print", fsys.Invalid},
		{"a b", canary, "the name of a secret is made of letters, digits, and - _ . only", fsys.Invalid},
		{".a", canary, "the name of a secret has 1 to 63 letters, and does not begin with . or -", fsys.Invalid},
	} {
		err := f.write(row.name, row.value)
		require.Equal(t, row.code, fsys.CodeOf(err))
		require.Equal(t, row.reason, fsys.ReasonOf(err))
	}
	// What is opened and hung up is no secret.
	_, h, err := fsys.OpenCreate(t.Context(), f.s.Root(), "a", 0o600, fsys.Write)
	require.NoError(t, err)
	_, err = fsys.WriteAt(t.Context(), h, []byte(canary), 0)
	require.NoError(t, err)
	require.NoError(t, h.Close())
	list, err := fsys.List(t.Context(), f.s.Root())
	require.NoError(t, err)
	require.Empty(t, list)
}

// What is stored shows nothing, and opens for its own agent and name only.
func TestSealed(t *testing.T) {
	f := newFixture(t)
	require.NoError(t, f.write("github", canary))
	b, err := f.st.Get(t.Context(), "github")
	require.NoError(t, err)
	require.False(t, bytes.Contains(b, []byte(canary)))
	require.NoError(t, f.st.Put(t.Context(), "other", b))
	_, err = f.s.Get(t.Context(), "other", secrets.Git, "https://example.com/x")
	require.Equal(t, "the secret other: a sealed record: it cannot be opened with this master key, or its record was changed", fsys.ReasonOf(err))
	bob := secrets.Open(secrets.Config{Store: f.st, Box: f.ring.Box("secrets"), Agent: "bob", Now: time.Now, Bindings: bound})
	_, err = bob.Get(t.Context(), "github", secrets.Env, "")
	require.ErrorIs(t, err, fsys.Internal)
	require.Equal(t, "(a box)", fmt.Sprintf("%#v", f.ring.Box("secrets")))

	require.NoError(t, f.st.Delete(t.Context(), "other"))
	other, err := identity.RingFromPassphrase(t.Context(), mem.New(), []byte("correct horse"))
	require.NoError(t, err)
	to := mem.New()
	require.NoError(t, secrets.Reseal(t.Context(), f.st, f.ring.Box("secrets"), "alice", to, other.Box("secrets"), "bob"))
	moved := secrets.Open(secrets.Config{Store: to, Box: other.Box("secrets"), Agent: "bob", Now: time.Now, Bindings: bound})
	got, err := moved.Get(t.Context(), "github", secrets.Env, "")
	require.NoError(t, err)
	require.Equal(t, canary, string(got))
}
