// Package host serves the tree that the operator of a daemon sees:
//
//	README   the manual
//	version  how this daemon was built
//	metrics  Prometheus text
//	events   Stream: every agent's events from the moment of the open, as JSON
//	         lines with the field agent
//	ctl      Message: token, revoke, socket, shutdown; read it for the list
//	agents/  mkdir NAME creates an agent, rmdir removes a stopped one
//	create   Message: {name, profile | files, set}; reply: the name
//	profiles/ Stored: what agents are made from; see services/profiles
//	accounts/ mkdir NAME creates an account for agents to have above theirs,
//	         rmdir removes one that nobody has
//	backup   Message: a read makes a copy of the database, as a tar archive
//	bundles/ <name>.tar is the agent in a file; a bundle written to new makes one
//	tokens/  one file per live token; rm revokes
package host

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"agent9/fsys"
	"agent9/namespace"
	"agent9/namespace/budget"
	"agent9/providers/models"
	"agent9/providers/programs"
	"agent9/providers/sandboxes"
	"agent9/providers/tools"
	"agent9/services/agent"
	"agent9/services/identity"
	"agent9/services/profiles"
	"agent9/services/ticks"
	"agent9/services/tokens"
	"agent9/services/transports"
	"agent9/store"
)

//go:embed tree.md
var manual string

// Options is what a daemon gives its host.
type Options struct {
	Store     store.Updater
	Ring      *identity.KeyRing
	Providers []*models.Runner
	Sandboxes []*sandboxes.Runner
	Tools     tools.Provider // starts servers of tools; may be nil
	// Serve serves what root returns to a program in a sandbox of the agent called
	// name, as that agent, until conn ends.
	Serve  func(name string, root agent.Inside, conn net.Conn)
	Limits budget.Limits
	Now    func() time.Time
	// Spool is the directory for what is too large for memory; empty is the
	// system's own.
	Spool string
	// Programs makes agents' programs, ServeTick and MountTick show an agent's
	// tree in a tick to one, and MaxTicks is how many run at once; 0 means 64.
	Programs             func(programs.Spec) (programs.Program, error)
	ServeTick, MountTick agent.Share
	MaxTicks             int
	// Socket opens an agent's own socket and returns its path; Unsocket
	// closes it. nil: there are none.
	Socket   func(name string) (path string, err error)
	Unsocket func(name string)
	Trace    fsys.Trace // may be nil
	// Transports carry messages to and from elsewhere, by the scheme of addresses.
	Transports map[string]transports.Transport
	// Collectors are what else than the host's own numbers is in metrics.
	Collectors []prometheus.Collector
	// Shutdown ends the daemon in order.
	Shutdown func()
}

// A Host is all agents of one daemon.
type Host struct {
	opts     Options
	agents   *agents
	accounts *accounts
	tokens   *tokens.Tokens
	profiles *profiles.Profiles
	schedule *ticks.Schedule
	post     transports.Table
	events   fsys.Feed
	count    prometheus.Counter // events since the start
	started  time.Time
	entries  []fsys.Entry // of root
	root     *fsys.Table
	ending   atomic.Bool    // the operator has asked for it
	behind   sync.WaitGroup // what runs until Close
	endAll   context.CancelFunc
}

// Open returns the host whose agents are in opts.Store, after it has finished
// what an earlier daemon left undone there. Work that is begun later ends with
// life.
func Open(life context.Context, opts Options) (*Host, error) {
	if opts.MaxTicks == 0 {
		opts.MaxTicks = 64
	}
	h := &Host{opts: opts, started: opts.Now(), count: newEventCount()}
	h.agents = &agents{
		st: opts.Store,
		house: &agent.House{
			Life: life, Ring: opts.Ring, Providers: opts.Providers, Sandboxes: opts.Sandboxes, Tools: opts.Tools, Serve: opts.Serve, Limits: opts.Limits, Now: opts.Now,
			Programs: opts.Programs, ServeTick: opts.ServeTick, MountTick: opts.MountTick,
			Happened: h.happened, Trace: opts.Trace,
		},
		ended: h.ended,
		live:  map[string]*slot{},
	}
	h.post = transports.Table{Local: agent.Local(h.agents.find), By: opts.Transports}
	h.agents.house.Post = h.post
	var err error
	if h.schedule, err = ticks.NewSchedule(life, store.Sub(opts.Store, duePart), opts.Now, opts.MaxTicks); err != nil {
		return nil, err
	}
	h.agents.house.Due = h.schedule.Set
	if err := finish(life, opts.Store); err != nil {
		return nil, err
	}
	if h.accounts, err = openAccounts(life, opts.Store, opts.Now, h.accountHappened); err != nil {
		return nil, err
	}
	h.agents.house.Account = h.accounts.find
	h.agents.settleAbove = h.accounts.settleBelow
	h.agents.house.Moved = func(ctx context.Context, tx store.Store, agent, from, to string) error {
		return h.accounts.moved(ctx, tx, "agents/"+agent, from, to)
	}
	if h.tokens, err = tokens.Open(life, store.Sub(opts.Store, tokensPart), tokens.Options{Now: opts.Now}); err != nil {
		return nil, err
	}
	h.agents.house.Tokens = h.tokens
	if h.profiles, err = profiles.Open(life, store.Sub(opts.Store, profilesPart)); err != nil {
		return nil, err
	}
	h.agents.byDefault = h.byDefault
	h.entries = []fsys.Entry{
		{Name: "README", Node: fsys.Const(manual)},
		{Name: "version", Node: fsys.Const(version())},
		{Name: "metrics", Node: fsys.Text(metricsOf(h))},
		{Name: "events", Node: &h.events},
		{Name: "ctl", Node: &fsys.Ctl{Do: h.ctl, Text: h.verbs, Closed: h.shutdownNow}},
		{Name: "agents", Node: fsys.NewTableWith(h.agents)},
		{Name: "accounts", Node: fsys.NewTableWith(h.accounts)},
		{Name: "backup", Node: backup{h}},
		{Name: "bundles", Node: fsys.NewTableWith(bundles{h}, fsys.Entry{Name: "new", Node: uploads{h}})},
		{Name: "create", Node: &fsys.Call{Do: h.createAgent, Limit: createLimit}},
		{Name: "profiles", Node: h.profiles.Root()},
		{Name: "tokens", Node: h.tokens.Root()},
	}
	h.root = fsys.NewTable(h.entries...)
	if err := h.settle(life); err != nil {
		return nil, err
	}
	behind, end := context.WithCancel(life)
	h.endAll = end
	h.behind.Go(func() { h.sweep(behind) })
	h.behind.Go(func() { h.tokens.Watch(behind) })
	h.behind.Go(func() {
		h.post.Receive(behind, func(scheme string, err error) {
			slog.Error("messages from elsewhere no longer come", "transport", scheme, "err", err)
		})
	})
	return h, nil
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
		if err == nil && unfinished {
			_, err = h.agents.build(ctx, e.Name, entry)
		}
		if store.IsDamaged(err) { // the others are whole
			slog.Error("what an agent was doing cannot be ended, as what there is of it is damaged", "agent", e.Name, "err", err)
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Start begins to run the agents' programs when they are due, until life ends
// or Rest is called.
func (h *Host) Start(life context.Context) { h.schedule.Start(life, h.work) }

// Rest cuts off the programs that run, and waits until that is recorded, or
// until ctx ends.
func (h *Host) Rest(ctx context.Context) error { return h.schedule.Close(ctx) }

func (h *Host) work(ctx context.Context, name string) error {
	a, err := h.agents.find(ctx, name)
	if err != nil {
		return err
	}
	return a.Work(ctx)
}

// Close cuts off the work of all agents and waits until that is recorded, or
// until ctx ends. What is not recorded then is settled by the next Open.
func (h *Host) Close(ctx context.Context) error {
	h.endAll()
	defer h.behind.Wait()
	errs := []error{h.Rest(ctx)}
	for _, a := range h.agents.inMemory() {
		errs = append(errs, a.Close(ctx))
	}
	return errors.Join(errs...)
}

// ID says which directory the root of the operator's tree is.
func (h *Host) ID() fsys.ID { return fsys.ID{In: h} }

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
	over := tokens.Ended(done)
	if grant.Agent == tokens.AllAgents {
		return h.limited(grant, over), grant.Agent, done, nil
	}
	a, err := h.agents.find(ctx, grant.Agent)
	if err != nil {
		return nil, "", nil, fsys.Permission
	}
	return a.Limited(grant.ID, grant.At, over), grant.Agent, done, nil
}

// limited returns the tree of the host, less what a token does not allow at each
// of its entries, until over returns why it has ended.
func (h *Host) limited(grant tokens.Grant, over func() error) fsys.Node {
	ns := &namespace.Namespace{ID: h.ID(), Over: over}
	for _, e := range h.entries {
		read, write := grant.AtHost("/" + e.Name)
		if err := ns.Mount(e.Name, only{e.Node}, namespace.Allow(read, write), namespace.Token(grant.ID)); err != nil {
			panic(err) // the table of the host is wrong
		}
	}
	return ns.Root()
}

// only is a service that is one node.
type only struct{ root fsys.Node }

func (o only) Root() fsys.Node { return o.root }

// checkMount refuses a path that is not an entry of the host's tree.
func (h *Host) checkMount(path string) error {
	var paths []string
	for _, e := range h.entries {
		if path == "/"+e.Name {
			return nil
		}
		paths = append(paths, "/"+e.Name)
	}
	return fsys.E(fsys.Invalid, "the host has no "+path+"; there are "+strings.Join(paths, " "))
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
	h.count.Inc()
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
