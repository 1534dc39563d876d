// Package host serves the tree that the operator of a daemon sees:
//
//	README   the manual
//	version  how this daemon was built
//	metrics  Prometheus text
//	events   Stream: every agent's events from the moment of the open, as JSON
//	         lines with the field agent
//	ctl      Message: token, revoke, socket, shutdown; read it for the list
//	agents/  mkdir NAME creates an agent, rmdir removes a stopped one
//	accounts/ mkdir NAME creates an account for agents to have above theirs,
//	         rmdir removes one that nobody has
//	tokens/  one file per live token; rm revokes
package host

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"agent9/fsys"
	"agent9/namespace/budget"
	provider "agent9/providers/compute"
	"agent9/services/agent"
	"agent9/services/identity"
	"agent9/services/tokens"
	"agent9/store"
)

//go:embed tree.md
var manual string

// Options is what a daemon gives its host.
type Options struct {
	Store     store.Updater
	Ring      *identity.KeyRing
	Providers []*provider.Runner
	Limits    budget.Limits
	Now       func() time.Time
	// Socket opens an agent's own socket and returns its path; Unsocket
	// closes it. nil: there are none.
	Socket   func(name string) (path string, err error)
	Unsocket func(name string)
	// Shutdown ends the daemon in order.
	Shutdown func()
}

// A Host is all agents of one daemon.
type Host struct {
	opts     Options
	agents   *agents
	accounts *accounts
	tokens   *tokens.Tokens
	events   fsys.Feed
	count    atomic.Int64 // events since the start
	started  time.Time
	root     *fsys.Table
	ending   atomic.Bool // the operator has asked for it
}

// Open returns the host whose agents are in opts.Store, after it has finished
// what an earlier daemon left undone there. Work that is begun later ends with
// life.
func Open(life context.Context, opts Options) (*Host, error) {
	h := &Host{opts: opts, started: opts.Now()}
	h.agents = &agents{
		st: opts.Store,
		house: &agent.House{
			Life: life, Ring: opts.Ring, Providers: opts.Providers, Limits: opts.Limits, Now: opts.Now,
			Happened: h.happened,
		},
		ended: h.ended,
		live:  map[string]*slot{},
	}
	h.agents.house.Recipient = h.agents.find
	if err := finish(life, opts.Store); err != nil {
		return nil, err
	}
	var err error
	if h.accounts, err = openAccounts(life, opts.Store, opts.Now, h.accountHappened); err != nil {
		return nil, err
	}
	h.agents.house.Account = h.accounts.find
	h.agents.house.Moved = func(ctx context.Context, tx store.Store, agent, from, to string) error {
		return h.accounts.moved(ctx, tx, "agents/"+agent, from, to)
	}
	if h.tokens, err = tokens.Open(life, store.Sub(opts.Store, tokensPart), nil); err != nil {
		return nil, err
	}
	h.root = fsys.NewTable(
		fsys.Entry{Name: "README", Node: fsys.Const(manual)},
		fsys.Entry{Name: "version", Node: fsys.Const(version())},
		fsys.Entry{Name: "metrics", Node: fsys.Text(h.metrics)},
		fsys.Entry{Name: "events", Node: &h.events},
		fsys.Entry{Name: "ctl", Node: &fsys.Ctl{Do: h.ctl, Text: h.verbs, Closed: h.shutdownNow}},
		fsys.Entry{Name: "agents", Node: fsys.NewTableWith(h.agents)},
		fsys.Entry{Name: "accounts", Node: fsys.NewTableWith(h.accounts)},
		fsys.Entry{Name: "tokens", Node: h.tokens.Root()},
	)
	return h, h.settle(life)
}

// settle builds the agents whose work an earlier daemon left unfinished: that
// ends it, and settles its money.
func (h *Host) settle(ctx context.Context) error {
	list, err := h.agents.List(ctx)
	if err != nil {
		return err
	}
	for _, e := range list {
		entry := e.Node.(*home).entry
		unfinished, err := agent.Interrupted(ctx, store.Sub(h.opts.Store, entry.part()))
		if err != nil {
			return err
		}
		if !unfinished {
			continue
		}
		if _, err := h.agents.build(ctx, e.Name, entry); err != nil {
			return err
		}
	}
	return nil
}

// Close cuts off the work of all agents and waits until that is recorded, or
// until ctx ends. What is not recorded then is settled by the next Open.
func (h *Host) Close(ctx context.Context) error {
	var errs []error
	for _, a := range h.agents.inMemory() {
		errs = append(errs, a.Close(ctx))
	}
	return errors.Join(errs...)
}

// Root returns the operator's tree.
func (h *Host) Root() fsys.Node { return h.root }

// Agent returns the tree that the agent called name sees.
func (h *Host) Agent(ctx context.Context, name string) (fsys.Node, error) {
	a, err := h.agents.find(ctx, name)
	if err != nil {
		return nil, err
	}
	return a.Self(), nil
}

// Token returns the tree that the bearer of a token sees, whose token it is,
// and what is closed when the token ends; it is watched as long as life
// lasts. Permission, whatever is wrong.
func (h *Host) Token(ctx, life context.Context, secret string) (root fsys.Node, name string, done <-chan struct{}, err error) {
	grant, done, err := h.tokens.Lookup(life, secret)
	if err != nil {
		return nil, "", nil, err
	}
	a, err := h.agents.find(ctx, grant.Agent)
	if err != nil {
		return nil, "", nil, fsys.Permission
	}
	return a.Limited(grant.Rights.At), grant.Agent, done, nil
}

// ended is called in the transaction that removes an agent.
func (h *Host) ended(ctx context.Context, tx store.Store, name string) error {
	store.After(tx, func() {
		if h.opts.Unsocket != nil {
			h.opts.Unsocket(name)
		}
	})
	return h.tokens.RevokeAgent(ctx, tx, name)
}

// happened publishes an agent's event, with the agent's name in it.
func (h *Host) happened(name string, line []byte) {
	h.publish("agent", name, line)
}

// accountHappened publishes the event of an account.
func (h *Host) accountHappened(name, event string) {
	h.publish("account", name, happened(h.opts.Now(), event))
}

func (h *Host) publish(kind, name string, line []byte) {
	h.count.Add(1)
	quoted, _ := json.Marshal(name)
	h.events.Publish(fmt.Appendf(nil, `{"%s":%s,%s`, kind, quoted, line[1:]))
}

// happened makes the line of an event that is not in any agent's own log.
func happened(now time.Time, event string) []byte {
	return fsys.Line(struct {
		Time  string `json:"time"`
		Event string `json:"event"`
	}{fsys.Stamp(now), event})
}

// version is one line: module version, revision, Go, system.
func version() string {
	v := "unknown"
	if b, ok := debug.ReadBuildInfo(); ok {
		v = b.Main.Version
		for _, s := range b.Settings {
			if s.Key == "vcs.revision" {
				v += " " + s.Value
			}
		}
	}
	return strings.Join([]string{"agent9", v, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}, " ") + "\n"
}

// metrics are in the text format of Prometheus.
func (h *Host) metrics(ctx context.Context) ([]byte, error) {
	list, err := h.agents.List(ctx)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	for _, m := range []struct {
		name, kind, help string
		value            int64
	}{
		{"agent9_agents", "gauge", "Agents that exist.", int64(len(list))},
		{"agent9_agents_in_memory", "gauge", "Agents that somebody refers to.", int64(len(h.agents.inMemory()))},
		{"agent9_events_total", "counter", "Events of all agents since the start.", h.count.Load()},
		{"agent9_goroutines", "gauge", "Goroutines of the daemon.", int64(runtime.NumGoroutine())},
		{"agent9_uptime_seconds", "gauge", "Time since the start.", int64(h.opts.Now().Sub(h.started).Seconds())},
	} {
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s %s\n%s %d\n", m.name, m.help, m.name, m.kind, m.name, m.value)
	}
	return []byte(b.String()), nil
}
