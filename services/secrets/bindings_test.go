package secrets_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"agent9/conformance/strict"
	"agent9/fsys"
	"agent9/services/secrets"
)

// A secret is used as the configuration says, and for no other host; what
// refuses says what to write.
func TestBindings(t *testing.T) {
	f := newFixture(t)
	require.NoError(t, f.write("forge", canary))
	config := map[string]json.RawMessage{}
	f.s = secrets.Open(secrets.Config{Store: f.st, Box: f.ring.Box("secrets"), Agent: "alice", Bindings: func() map[string]json.RawMessage { return config }})
	for _, row := range []struct {
		binding string
		use     secrets.Use
		target  string
		reason  string // empty: it is given
	}{
		{``, secrets.Git, "https://github.com/x", `the secret forge is not bound to git; the operator writes "secrets": {"forge":{"hosts":["github.com"],"uses":["git"]}} into the agent's config`},
		{``, secrets.Env, "", `the secret forge is not bound to env; the operator writes "secrets": {"forge":{"uses":["env"]}} into the agent's config`},
		{`{"uses":["net"],"hosts":["a"]}`, secrets.Git, "http://a:81/x", `the secret forge is not bound to git; the operator writes "secrets": {"forge":{"hosts":["a","a:81"],"uses":["net","git"]}} into the agent's config`},
		{`{"uses":["git"]}`, secrets.Git, "https://github.com/x", `the secret forge is not bound to the host github.com; the operator adds that to secrets.forge.hosts in the agent's config`},
		{`{"uses":["git"],"hosts":["github.com"]}`, secrets.Git, "https://GitHub.com:443/x", ""},
		{`{"uses":["git"],"hosts":["github.com"]}`, secrets.Git, "https://github.com:8443/x", "not bound to the host github.com:8443"},
		{`{"uses":["git"],"hosts":["github.com"]}`, secrets.Git, "https://github.com.evil.example/x", "not bound to the host github.com.evil.example"},
		{`{"uses":["git"],"hosts":["github.com"]}`, secrets.Git, "https://github.com@evil.example/x", "not bound to the host evil.example"},
		{`{"uses":["git"],"hosts":["*.example.com"]}`, secrets.Git, "https://example.com/x", "not bound to the host example.com"},
		{`{"uses":["git"],"hosts":["*.example.com"]}`, secrets.Git, "https://a.b.example.com/x", ""},
		{`{"uses":["net"],"hosts":["localhost:8080"]}`, secrets.Net, "http://localhost:8080", ""},
		{`{"uses":["net"],"hosts":["localhost:8080"]}`, secrets.Net, "http://localhost", "not bound to the host localhost;"},
		{`{"uses":["net"],"hosts":["localhost:*"]}`, secrets.Net, "http://localhost:1", ""},
		{`{"uses":["net"],"hosts":["[::1]:8"]}`, secrets.Net, "http://[::1]:8/", ""},
		{`{"uses":["net"],"hosts":["*"]}`, secrets.Net, "nothing", "for no server at"},
		{`{"uses":["tools"]}`, secrets.Tools, "", ""},
	} {
		delete(config, "forge")
		if row.binding != "" {
			config["forge"] = json.RawMessage(row.binding)
		}
		value, err := f.s.Get(t.Context(), "forge", row.use, row.target)
		if row.reason == "" {
			require.NoError(t, err, row.binding)
			require.Equal(t, canary, string(value))
			continue
		}
		require.Empty(t, value)
		require.Contains(t, fsys.ReasonOf(err), row.reason)
	}
}

func TestBindingsRefused(t *testing.T) {
	for doc, want := range map[string]string{
		`{"uses":["disk"]}`:                    `secrets: x: a secret has no use "disk"; there are: git, tools, net, env`,
		`{"uses":["git"],"host":["a"]}`:        `unknown field "host"`,
		`{"hosts":["https://a"],"uses":[]}`:    `"https://a" is not the name of a host, such as github.com`,
		`{"hosts":[""],"uses":[]}`:             `"" is not the name of a host`,
		`{"hosts":["a/b"],"uses":[]}`:          `is not the name of a host`,
		`{"hosts":["a:"],"uses":[]}`:           `is not the name of a host`,
		`{"hosts":["a:x"],"uses":[]}`:          `is not the name of a host`,
		`{"hosts":["[a-z].com"],"uses":[]}`:    `is not the name of a host`,
		`{"hosts":["GitHub.com"],"uses":[]}`:   `is not the name of a host`,
		`{"hosts":["user@a"],"uses":[]}`:       `is not the name of a host`,
		`{"uses":"git"}`:                       `an array is expected`,
		`[]`:                                   ``,
		`{"uses":["git"],"hosts":["a"]} {"a"}`: ``,
	} {
		err := secrets.CheckBindings(map[string]json.RawMessage{"x": json.RawMessage(doc)})
		require.ErrorIs(t, err, fsys.Invalid, doc)
		require.Contains(t, fsys.ReasonOf(err), want)
	}
	require.ErrorIs(t, secrets.CheckBindings(map[string]json.RawMessage{"a b": json.RawMessage(`{"uses":[]}`)}), fsys.Invalid)
	require.NoError(t, secrets.CheckBindings(map[string]json.RawMessage{"a": json.RawMessage(`{"uses":["git","tools","net","env"],"hosts":["*","a.b:1","[::1]","10.0.0.1:*"]}`)}))
}

func FuzzBinding(f *testing.F) {
	for _, s := range []string{`{"uses":["git"],"hosts":["*.a:1"]}`, `{}`, `null`, `{"uses":null}`, `{"hosts":["[::1]:*"]}`, `{"uses":["x"]}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) { strict.Object(t, in, secrets.ParseBinding) })
}
