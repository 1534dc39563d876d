package status

import (
	"bytes"
	"context"
	"encoding/json"
	"path"

	"agent9/fsys"
	"agent9/providers/programs"
	"agent9/store"
)

// Config is what the operator sets for an agent. Every field may be absent.
type Config struct {
	Inbox      Inbox      `json:"inbox,omitzero"`
	Deadletter Deadletter `json:"deadletter,omitzero"`
	// Accept lists the agents whose messages are taken, as globs; absent
	// means all, and an empty list none. The operator is always taken.
	Accept *[]string `json:"accept,omitempty"`
	// Mounts limits what the agent may do with a mount: read-only, sign-only
	// or disabled, by path ("/identity"). The operator is not limited by it.
	Mounts map[string]string `json:"mounts,omitempty"`
	// Prompt is what a model is told before anything else when it speaks for
	// the agent.
	Prompt   string   `json:"prompt,omitempty"`
	Sessions Sessions `json:"sessions,omitzero"`
	// Tools are the servers of tools, by name; what is said of one is checked
	// by who uses it.
	Tools map[string]json.RawMessage `json:"tools,omitempty"`
	// Secrets say who may use a secret, by its name; they are checked by who
	// keeps them.
	Secrets map[string]json.RawMessage `json:"secrets,omitempty"`
	// Program is what runs in the agent's ticks; absent: nothing does, and a
	// program elsewhere may read inbox/next.
	Program  *programs.Spec `json:"program,omitempty"`
	Tick     Tick           `json:"tick,omitzero"`
	Triggers Triggers       `json:"triggers,omitzero"`
}

// Inbox bounds the messages that wait.
type Inbox struct {
	Limit    int    `json:"limit,omitempty"`    // messages; default 1024
	Overflow string `json:"overflow,omitempty"` // deadletter (default), drop-oldest, refuse
}

// Deadletter bounds the messages that could not be taken.
type Deadletter struct {
	Limit    int    `json:"limit,omitempty"`    // messages; default 1024
	Overflow string `json:"overflow,omitempty"` // refuse (default), drop-oldest
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
	err := fsys.Strictly(doc, &c)
	if err != nil {
		return c, fsys.E(fsys.Invalid, err.Error())
	}
	if c.Inbox.Limit < 0 || c.Inbox.Limit > 1<<20 {
		return c, fsys.E(fsys.Invalid, "inbox.limit must be from 1 to 1048576")
	}
	if c.Deadletter.Limit < 0 || c.Deadletter.Limit > 1<<20 {
		return c, fsys.E(fsys.Invalid, "deadletter.limit must be from 1 to 1048576")
	}
	switch c.Deadletter.Overflow {
	case "", "drop-oldest", "refuse":
	default:
		return c, fsys.E(fsys.Invalid, "deadletter.overflow must be refuse or drop-oldest")
	}
	if err := c.Sessions.check(); err != nil {
		return c, err
	}
	switch c.Inbox.Overflow {
	case "", "deadletter", "drop-oldest", "refuse":
	default:
		return c, fsys.E(fsys.Invalid, "inbox.overflow must be deadletter, drop-oldest or refuse")
	}
	if err := c.checkTicks(); err != nil {
		return c, err
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

// checkLimits refuses a limit of 0, which older daemons stored and took for the
// default.
func checkLimits(doc []byte) error {
	var c map[string]json.RawMessage
	if err := json.Unmarshal(doc, &c); err != nil {
		return err
	}
	for _, name := range []string{"inbox", "deadletter"} {
		var q struct {
			Limit *int `json:"limit"`
		}
		if json.Unmarshal(c[name], &q) == nil && q.Limit != nil && *q.Limit == 0 {
			return fsys.E(fsys.Invalid, name+".limit must be from 1 to 1048576")
		}
	}
	return nil
}

// IsSetting reports whether what is stored at key is what the operator has set,
// and not what the agent did: a copy of an agent is given it.
func IsSetting(key string) bool { return key == configKey }

// ConfigIn returns the configuration in st as it was written, and PutConfig
// replaces it: for what raises an older store.
func ConfigIn(ctx context.Context, st store.Store) ([]byte, error) { return st.Get(ctx, configKey) }

func PutConfig(ctx context.Context, tx store.Store, doc []byte) error {
	if _, err := ParseConfig(doc); err != nil {
		return err
	}
	return tx.Put(ctx, configKey, doc)
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
	if err == nil {
		err = checkLimits(doc)
	}
	if err != nil {
		return err
	}
	if s.opts.CheckConfig != nil {
		if err := s.opts.CheckConfig(c); err != nil {
			return err
		}
	}
	doc = append(bytes.TrimSpace(bytes.Clone(doc)), '\n')
	err = s.st.Update(ctx, func(tx store.Store) error {
		if err := tx.Put(ctx, configKey, doc); err != nil {
			return err
		}
		if s.opts.Configured != nil {
			if err := s.opts.Configured(ctx, tx, c); err != nil {
				return err
			}
		}
		store.After(tx, func() {
			s.mu.Lock()
			s.doc = doc
			s.config.Store(&c)
			s.mu.Unlock()
		})
		return s.opts.Note.Record(tx, "config.changed", struct {
			By fsys.Caller `json:"by"`
		}{fsys.CallerOf(ctx)})
	})
	if err == nil && s.opts.Reconfigured != nil {
		err = s.opts.Reconfigured()
	}
	return err
}
