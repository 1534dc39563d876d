package status

import (
	"bytes"
	"context"
	"encoding/json"
	"path"
	"strings"

	"agent9/fsys"
	"agent9/store"
)

// Config is what the operator sets for an agent. Every field may be absent.
type Config struct {
	Inbox Inbox `json:"inbox,omitzero"`
	// Accept lists the agents whose messages are taken, as globs; absent
	// means all, and an empty list none. The operator is always taken.
	Accept *[]string `json:"accept,omitempty"`
	// Mounts limits what the agent may do with a mount: read-only, sign-only
	// or disabled, by path ("/identity"). The operator is not limited by it.
	Mounts map[string]string `json:"mounts,omitempty"`
}

// Inbox bounds the messages that wait.
type Inbox struct {
	Limit    int    `json:"limit,omitempty"`    // messages; default 1024
	Overflow string `json:"overflow,omitempty"` // deadletter (default), drop-oldest, refuse
}

// Accepts reports whether messages of from are taken.
func (c Config) Accepts(from string) bool {
	if c.Accept == nil {
		return true
	}
	for _, glob := range *c.Accept {
		if ok, _ := path.Match(glob, from); ok {
			return true
		}
	}
	return false
}

// ParseConfig decodes doc strictly: a field that does not exist is refused by
// its name.
func ParseConfig(doc []byte) (Config, error) {
	var c Config
	d := json.NewDecoder(bytes.NewReader(doc))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		return c, fsys.E(fsys.Invalid, strings.TrimPrefix(err.Error(), "json: "))
	}
	if c.Inbox.Limit < 0 || c.Inbox.Limit > 1<<20 {
		return c, fsys.E(fsys.Invalid, "inbox.limit must be from 1 to 1048576")
	}
	switch c.Inbox.Overflow {
	case "", "deadletter", "drop-oldest", "refuse":
	default:
		return c, fsys.E(fsys.Invalid, "inbox.overflow must be deadletter, drop-oldest or refuse")
	}
	if c.Accept != nil {
		for _, glob := range *c.Accept {
			if _, err := path.Match(glob, ""); err != nil {
				return c, fsys.E(fsys.Invalid, "accept: "+glob+" is not a glob")
			}
		}
	}
	return c, nil
}

// ConfigFile returns the config file. It is apart from Root, because only the
// operator may write it.
func (s *Service) ConfigFile() fsys.Node {
	return &fsys.Doc{
		Load: func(context.Context) ([]byte, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.doc, nil
		},
		Save: s.saveConfig,
	}
}

func (s *Service) saveConfig(ctx context.Context, doc []byte) error {
	c, err := ParseConfig(doc)
	if err != nil {
		return err
	}
	if s.opts.CheckConfig != nil {
		if err := s.opts.CheckConfig(c); err != nil {
			return err
		}
	}
	doc = append(bytes.TrimSpace(bytes.Clone(doc)), '\n')
	return s.st.Update(ctx, func(tx store.Store) error {
		if err := tx.Put(ctx, configKey, doc); err != nil {
			return err
		}
		store.After(tx, func() {
			s.mu.Lock()
			s.config, s.doc = c, doc
			s.mu.Unlock()
		})
		return s.note(tx, "config.changed", struct {
			By fsys.Caller `json:"by"`
		}{fsys.CallerOf(ctx)})
	})
}
