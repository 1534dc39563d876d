package containers

import (
	"bytes"
	"context"
	"maps"
	"slices"

	"agent9/fsys"
	"agent9/providers/scrub"
)

// secrets are those that a session was given.
type secrets struct {
	token  []byte          // for the clone
	env    []string        // for commands
	hidden *scrub.Scrubber // all of them, in what the session shows
}

// openSecrets gets what the request names.
func (w *session) openSecrets(ctx context.Context) error {
	var all [][]byte
	get := func(what, name string, get func() ([]byte, error)) ([]byte, error) {
		value, err := get()
		if err == nil && bytes.ContainsRune(value, 0) {
			err = fsys.E(fsys.Invalid, "it has a byte that is 0")
		}
		if err != nil {
			return nil, fsys.Wrap(fsys.CodeOf(err), what+": the secret "+name, err)
		}
		all = append(all, value)
		return value, nil
	}
	c := &w.s.config
	if r := w.plan.req.Repo; r != nil && r.Auth != nil {
		value, err := get("repo", r.Auth.Secret, func() ([]byte, error) { return c.GitSecret(ctx, r.Auth.Secret, r.URL) })
		if err != nil {
			return err
		}
		if w.secrets.token = bytes.Clone(bytes.TrimSpace(value)); len(w.secrets.token) == 0 || bytes.ContainsAny(value[:len(bytes.TrimRight(value, " \r\n"))], "\r\n") {
			return fsys.E(fsys.Invalid, "repo: the secret "+r.Auth.Secret+" is not a token")
		}
	}
	for _, k := range slices.Sorted(maps.Keys(w.plan.req.Env)) {
		v := w.plan.req.Env[k]
		if v.Secret == "" {
			continue
		}
		value, err := get("env", v.Secret, func() ([]byte, error) { return c.EnvSecret(ctx, v.Secret) })
		if err != nil {
			return err
		}
		w.secrets.env = append(w.secrets.env, k+"="+string(value))
	}
	for i := range all {
		all[i] = bytes.TrimSpace(all[i])
	}
	w.secrets.hidden = scrub.New(all...)
	for _, value := range all {
		clear(value)
	}
	return nil
}
