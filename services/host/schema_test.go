package host_test

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"agent9/services/host"
	"agent9/services/status"
	"agent9/store/bolt"
)

// A store from before secrets were bound is given the bindings that its
// configurations and sessions show, once; nothing else of them is changed.
func TestSecretsAreBound(t *testing.T) {
	file := filepath.Join(kept(t), host.DatabaseName)
	old, err := bolt.OpenWith(file, bolt.Options{Steps: host.Steps()[:2]})
	require.NoError(t, err)
	const config = `{"accept": ["bob"],
 "tools": {"forge": {"command": ["x"], "env": {"K": {"secret": "both"}, "L": "text"}},
           "far": {"url": "https://mcp.example.com:8443/x", "headers": {"H": {"secret": "both"}, "I": {"secret": "missing"}}}},
 "program": {"http": {"url": "http://localhost/hook", "secret": {"name": "hook"}}}
}
`
	put := func(key, value string) { require.NoError(t, old.Put(t.Context(), key, []byte(value))) }
	put("data/1/status/config", config)
	put("data/2/status/config", "{}\n")
	for _, name := range []string{"both", "hook", "git", "unused"} {
		put("data/1/secrets/"+name, `{"version":1,"sealed":"AAAA"}`)
	}
	for n, row := range map[string][2]string{
		"0000000000000901": {`{"number":901,"state":"done"}`, `{"repo":{"url":"https://github.com/a/b.git","auth":{"secret":"git"}}}`},
		"0000000000000902": {`{"number":902,"state":"failed","results":[{"exit_code":1}]}`, `{"repo":{"url":"http://127.0.0.1:3000/b","auth":{"secret":"git"}},"commands":["false"]}`},
		"0000000000000903": {`{"number":903,"state":"failed"}`, `{"repo":{"url":"https://evil.example/b","auth":{"secret":"git"}}}`},
		"0000000000000904": {`{"number":904,"state":"done"}`, `echo "auth"`},
		"0000000000000905": {`not JSON`, `{}`},
	} {
		put("data/1/containers/rec/"+n, row[0])
		put("data/1/containers/req/"+n, row[1])
	}
	require.NoError(t, old.Close())

	db, err := bolt.OpenWith(file, bolt.Options{Steps: host.Steps()})
	require.NoError(t, err)
	defer db.Close()
	got, err := db.Get(t.Context(), "data/1/status/config")
	require.NoError(t, err)
	c, err := status.ParseConfig(got)
	require.NoError(t, err)
	was, err := status.ParseConfig([]byte(config))
	require.NoError(t, err)
	for name, want := range map[string]string{
		"both":    `{"uses":["tools"],"hosts":["mcp.example.com:8443"]}`,
		"missing": `{"uses":["tools"],"hosts":["mcp.example.com:8443"]}`,
		"hook":    `{"uses":["net"],"hosts":["localhost"]}`,
		"git":     `{"uses":["git"],"hosts":["127.0.0.1:3000","github.com"]}`,
		"unused":  `{"uses":[]}`,
	} {
		require.JSONEq(t, want, string(c.Secrets[name]), name)
	}
	require.Equal(t, `{"uses":[]}`, string(c.Secrets["tok"])) // the store had it
	require.Len(t, c.Secrets, 6)
	c.Secrets = nil
	require.Equal(t, was, c)
	require.Contains(t, string(got), config[:100])
	other, err := db.Get(t.Context(), "data/2/status/config")
	require.NoError(t, err)
	var fields map[string]any
	require.NoError(t, json.Unmarshal(other, &fields))
}
