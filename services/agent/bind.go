package agent

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"agent9/fsys"
	"agent9/services/containers"
	"agent9/services/internal/work"
	"agent9/services/secrets"
	"agent9/services/status"
	"agent9/services/tools"
	"agent9/store"
)

// BindSecrets writes into the configuration of an agent, whose part of a
// transaction is tx, who may use its secrets: who did so far, as the
// configuration and the sessions that are kept show. A configuration that has
// bindings, or cannot be read, is left as it is.
func BindSecrets(ctx context.Context, tx store.Store) error {
	part := store.Part(tx, statusPart)
	doc, err := status.ConfigIn(ctx, part)
	if err != nil {
		if errors.Is(err, fsys.NotExist) {
			return nil // fsck tells of it
		}
		return err
	}
	c, err := status.ParseConfig(doc)
	if err != nil || c.Secrets != nil {
		return nil
	}
	all := map[string]secrets.Binding{}
	for p, err := range store.All(ctx, store.Part(tx, secretsPart), "") {
		if err != nil {
			return err
		}
		all[p.Key] = secrets.Binding{Uses: []secrets.Use{}}
	}
	bindAsConfigured(all, c)
	err = containers.Clones(ctx, store.Part(tx, containersPart), func(secret, url string) { bind(all, secret, secrets.Git, url) })
	if err != nil || len(all) == 0 {
		return err
	}
	return status.PutConfig(ctx, part, withField(doc, "secrets", all))
}

func bindAsConfigured(all map[string]secrets.Binding, c status.Config) {
	for _, raw := range c.Tools {
		server, err := tools.ParseServer(raw)
		if err != nil {
			continue
		}
		for _, values := range []map[string]work.Value{server.Env, server.Headers} {
			for _, v := range values {
				bind(all, v.Secret, secrets.Tools, server.URL)
			}
		}
	}
	if p := c.Program; p != nil && p.HTTP != nil && p.HTTP.Secret != nil {
		bind(all, p.HTTP.Secret.Name, secrets.Net, p.HTTP.URL)
	}
}

// bind adds a use, with the host of target if there is one, to the secret
// called name; empty is none.
func bind(all map[string]secrets.Binding, name string, use secrets.Use, target string) {
	if name == "" {
		return
	}
	b := all[name]
	if !slices.Contains(b.Uses, use) {
		b.Uses = append(b.Uses, use)
		slices.Sort(b.Uses)
	}
	if host, err := secrets.HostOf(target); err == nil && target != "" && !slices.Contains(b.Hosts, host) {
		b.Hosts = append(b.Hosts, host)
		slices.Sort(b.Hosts)
	}
	all[name] = b
}

// withField is doc, which is a JSON object that has no such field, with one
// more. The rest of it stays as it was written.
func withField(doc []byte, name string, value any) []byte {
	body := bytes.TrimSpace(bytes.TrimSuffix(bytes.TrimSpace(doc), []byte("}")))
	comma := ""
	if !bytes.HasSuffix(body, []byte("{")) {
		comma = ",\n"
	}
	return slices.Concat(body, []byte(comma), fsys.Line(map[string]any{name: value})[1:])
}
