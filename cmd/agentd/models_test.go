package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func env(vars map[string]string) func(string) string {
	return func(name string) string { return vars[name] }
}

func TestKeys(t *testing.T) {
	vars := env(map[string]string{"MY_GPT_API_KEY": "own", "OPENAI_API_KEY": "vendor"})
	for _, tc := range []struct{ id, url, key, name string }{
		{"my-gpt", "https://x", "own", "MY_GPT_API_KEY"},
		{"my-gpt", "http://x", "own", "MY_GPT_API_KEY"},
		{"other", "https://x", "vendor", "OPENAI_API_KEY"},
		{"other", "", "vendor", "OPENAI_API_KEY"},
		{"other", "http://127.0.0.1:1", "", "OTHER_API_KEY"},
	} {
		key, name := choice{id: tc.id, getenv: vars}.key("OPENAI_API_KEY", tc.url)
		require.Equal(t, []string{tc.key, tc.name}, []string{key, name}, "%+v", tc)
	}
}

func TestFound(t *testing.T) {
	require.Equal(t, []string{"openai=openai:https://api.openai.com/v1", "ollama=ollama:http://127.0.0.1:11434"},
		found(t.Context(), env(map[string]string{"OPENAI_API_KEY": "k", "OLLAMA_HOST": "0.0.0.0"})))
	require.Equal(t, []string{"openai=openai:http://x/v1", "anthropic=anthropic:", "ollama=ollama:https://o:1"},
		found(t.Context(), env(map[string]string{
			"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "http://x/v1", "ANTHROPIC_API_KEY": "k", "OLLAMA_HOST": "https://o:1/",
		})))
}

func TestProviders(t *testing.T) {
	none := env(nil)
	for _, spec := range []string{"a=exec:cat", "a=openai:http://127.0.0.1:1/v1", "a=ollama:", "a=echo:", "a=ollama:http://127.0.0.1:1", "a=openai,price=0:http://127.0.0.1:1/v1"} {
		r, _, err := provider(spec, "", none)
		require.NoError(t, err, spec)
		require.Equal(t, "a", r.ID())
		require.Equal(t, !strings.Contains(spec, "=openai:"), r.Info().Free, spec)
	}
	for spec, say := range map[string]string{
		"exec:cat":                  "want ID=DRIVER:TARGET",
		"a=exec":                    "want ID=DRIVER:TARGET",
		"a/b=exec:cat":              "want ID=DRIVER:TARGET",
		"a=exec:":                   "exec needs a command",
		"a=openai:":                 "openai needs the URL",
		"a=what:x":                  "there are anthropic, cloudflare, echo, exec, ollama, openai",
		"a=cloudflare:":             "account",
		"a=openai,price=5:http://x": "the only option is a=openai,price=0:URL",
		"a=echo,price=0:":           "the only option is a=openai,price=0:URL",
	} {
		_, _, err := provider(spec, "", none)
		require.ErrorContains(t, err, say, spec)
	}
}

// A provider that wants a key and has none is known at the start.
func TestMissingKeys(t *testing.T) {
	for spec, want := range map[string]string{
		"a=echo:":                        "",
		"a=ollama:":                      "",
		"a=openai:http://127.0.0.1:1/v1": "",
		"a=openai:https://x.test/v1":     "A_API_KEY or OPENAI_API_KEY",
		"openai=openai:https://x.test":   "OPENAI_API_KEY",
		"b=anthropic:":                   "",
		"a=anthropic:":                   "A_API_KEY or ANTHROPIC_API_KEY",
		"a=cloudflare:0123":              "A_API_KEY or CLOUDFLARE_API_TOKEN",
	} {
		_, lacks, err := provider(spec, "", env(map[string]string{"B_API_KEY": "k"}))
		require.NoError(t, err, spec)
		require.Equal(t, want, lacks, spec)
	}
}
