package host

import (
	"context"
	"strings"
	"time"

	"agent9/fsys"
	"agent9/services/agent"
	"agent9/services/tokens"
	"agent9/store"
)

// command is a verb of ctl.
type command struct {
	verb, args, help string
	min, max         int // words after the verb
	do               func(h *Host, ctx context.Context, args []string) ([]byte, error)
}

func commands() []command {
	return []command{
		{"create", "NAME [PROFILE [KEY=VALUE]...]", "make an agent from a profile", 1, 1000, (*Host).createWords},
		{"token", "NAME [RIGHTS [EXPIRY]]", "make a token for an agent, or for * for all that the operator sees; read it on the same open file. " +
			"RIGHTS: rw (default), r, r,/inbox:rw …; EXPIRY: 24h (default), 7d, a time, never", 1, 3, (*Host).issue},
		{"revoke", "ID", "end a token, and whatever uses it", 1, 1, (*Host).revoke},
		{"socket", "NAME", "open the agent's own socket; read its path on the same open file", 1, 1, (*Host).socket},
		{"shutdown", "", "end the daemon in order", 0, 0, (*Host).shutdown},
	}
}

func (h *Host) verbs(context.Context) ([]byte, error) {
	var b strings.Builder
	for _, c := range commands() {
		b.WriteString(strings.TrimSpace(c.verb+" "+c.args) + "\t" + c.help + "\n")
	}
	return []byte(b.String()), nil
}

func (h *Host) ctl(ctx context.Context, words []string) ([]byte, error) {
	var verbs []string
	for _, c := range commands() {
		if c.verb != words[0] {
			verbs = append(verbs, c.verb)
			continue
		}
		args := words[1:]
		if len(args) < c.min || len(args) > c.max {
			return nil, fsys.E(fsys.Invalid, strings.TrimSpace("want "+c.verb+" "+c.args))
		}
		return c.do(h, ctx, args)
	}
	return nil, fsys.E(fsys.Invalid, "unknown command "+words[0]+"; there are: "+strings.Join(verbs, ", "))
}

func (h *Host) issue(ctx context.Context, args []string) ([]byte, error) {
	name := args[0]
	args = append(args, []string{"rw", "24h"}[len(args)-1:]...)
	grant := tokens.Grant{Agent: name}
	var err error
	if grant.Rights, err = tokens.ParseRights(args[1]); err != nil {
		return nil, err
	}
	check := agent.CheckMount
	if name == tokens.AllAgents {
		check = h.checkMount
	}
	for _, path := range grant.Rights.Paths() {
		if err := check(path); err != nil {
			return nil, fsys.Wrap(fsys.Invalid, "rights", err)
		}
	}
	if grant.Expires, err = tokens.ParseExpiry(args[2], h.opts.Now()); err != nil {
		return nil, err
	}
	var secret string
	err = h.opts.Store.Update(ctx, func(tx store.Store) error {
		if name != tokens.AllAgents {
			if err := h.exists(ctx, tx, name); err != nil {
				return err
			}
		}
		secret, _, err = h.tokens.IssueIn(ctx, tx, grant)
		return err
	})
	return []byte(secret + "\n"), err
}

// exists reports that no agent is called name, if so.
func (h *Host) exists(ctx context.Context, s store.Store, name string) error {
	if _, err := h.agents.entry(ctx, s, name); err != nil {
		return h.agents.unknown(ctx, name, err)
	}
	return nil
}

func (h *Host) revoke(ctx context.Context, args []string) ([]byte, error) {
	return nil, h.tokens.Revoke(ctx, args[0])
}

// mayMake refuses what needs the right to write at /agents to who came with a token
// that has none.
func (h *Host) mayMake(ctx context.Context) error {
	id := fsys.TokenOf(ctx)
	if id == "" {
		return nil
	}
	_, write, err := h.tokens.May(ctx, nil, id, "/")
	if err == nil && !write {
		err = fsys.E(fsys.Permission, "the token may not write at /agents")
	}
	return err
}

func (h *Host) socket(ctx context.Context, args []string) ([]byte, error) {
	if err := h.mayMake(ctx); err != nil {
		return nil, err
	}
	if err := h.exists(ctx, h.opts.Store, args[0]); err != nil {
		return nil, err
	}
	if h.opts.Socket == nil {
		return nil, fsys.E(fsys.Unsupported, "this daemon has no sockets")
	}
	path, err := h.opts.Socket(args[0])
	return []byte(path + "\n"), err
}

// farewell is how long shutdown waits for ctl to be closed by who asked.
const farewell = time.Second

// shutdown ends the daemon when ctl is closed next, so that who writes to it
// still hears that all went well, or soon.
func (h *Host) shutdown(context.Context, []string) ([]byte, error) {
	h.ending.Store(true)
	time.AfterFunc(farewell, h.opts.Shutdown)
	return nil, nil
}

func (h *Host) shutdownNow() {
	if h.ending.Load() {
		h.opts.Shutdown()
	}
}
