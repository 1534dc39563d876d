package agent

import (
	"context"
	"slices"
	"strings"

	"agent9/fsys"
	"agent9/namespace"
	"agent9/services/status"
	"agent9/services/tools"
)

// row is a mount of an agent.
type row struct {
	path    string
	service string // shown in the mount table
	root    func(a *Agent) fsys.Node
	admin   bool // only the operator may write
	paid    bool // from the agent's budget
}

// The paths of mounts that are looked up.
const (
	statePath  = "/state"
	outboxPath = "/outbox"
	goalsPath  = "/goals"
	ctlPath    = "/ctl" // only in a tick
)

var rows = []row{
	{path: "/", service: "status", root: func(a *Agent) fsys.Node { return a.status.Root() }},
	{path: "/config", service: "status", root: func(a *Agent) fsys.Node { return a.status.ConfigFile() }, admin: true},
	{path: "/budget", service: "budget", root: func(a *Agent) fsys.Node { return a.budget.Root() }, admin: true},
	{path: "/approvals", service: "budget", root: func(a *Agent) fsys.Node { return a.approvals.Root() }, admin: true},
	{path: "/inbox", service: "inbox", root: func(a *Agent) fsys.Node { return a.inbox.Root() }},
	{path: "/deadletter", service: "inbox", root: func(a *Agent) fsys.Node { return a.inbox.DeadLetter() }},
	{path: outboxPath, service: "inbox", root: func(a *Agent) fsys.Node { return a.outbox.Root() }},
	{path: "/logs", service: "logs", root: func(a *Agent) fsys.Node { return a.logs.Root() }},
	{path: "/logs/output", service: "ticks", root: func(a *Agent) fsys.Node { return a.ticks.Output() }},
	{path: goalsPath, service: "goals", root: func(a *Agent) fsys.Node { return a.goals.Root() }},
	{path: statePath, service: "state", root: func(a *Agent) fsys.Node { return a.state.Root() }},
	{path: "/skills", service: "skills", root: func(a *Agent) fsys.Node { return a.skills.Root() }},
	{path: "/tools", service: "tools", root: func(a *Agent) fsys.Node { return a.tools.Root() }, paid: true},
	{path: "/identity", service: "identity", root: func(a *Agent) fsys.Node { return a.identity.Root() }},
	{path: "/secrets", service: "secrets", root: func(a *Agent) fsys.Node { return a.secrets.Root() }, admin: true},
	{path: "/compute", service: "compute", root: func(a *Agent) fsys.Node { return a.compute.Root() }, paid: true},
	{path: "/containers", service: "containers", root: func(a *Agent) fsys.Node { return a.sandboxes.Root() }, paid: true},
	{path: "/containers/policy", service: "containers", root: func(a *Agent) fsys.Node { return a.sandboxes.Policy() }, admin: true},
	{path: "/sessions", service: "sessions", root: func(a *Agent) fsys.Node { return a.sessions.Root() }, paid: true},
	{path: "/compute/policy", service: "compute", root: func(a *Agent) fsys.Node { return a.compute.Policy() }, admin: true},
}

// viewer is who a tree is for.
type viewer struct {
	operator bool
	rights   func(mount string) (read, write bool) // nil: all
	// room is that of a tick, and instead what is mounted there in place of
	// the roots of rows, or beside them; nil for everybody else.
	room    *room
	instead map[string]fsys.Node
}

// view builds the tree that v sees.
func (a *Agent) view(v viewer) *namespace.Namespace {
	ns := &namespace.Namespace{Refused: a.refused, Ended: a.gone.Load}
	rows := rows
	if v.room != nil {
		ns.Ended = func() bool { return v.room.over.Load() || a.gone.Load() }
		rows = append(slices.Clip(rows), row{path: ctlPath, service: "status"})
	}
	for _, r := range rows {
		root := v.instead[r.path]
		if root == nil {
			root = r.root(a)
		}
		var gates []namespace.Option
		if v.rights != nil {
			read, write := v.rights(r.path)
			gates = append(gates, namespace.Allow(read, write))
		}
		if !v.operator {
			gates = append(gates, namespace.Access(func() namespace.Level { return a.levelAt(r.path) }))
			if r.admin {
				gates = append(gates, namespace.Always(namespace.ReadOnly))
			}
		}
		if v.room != nil {
			gates = append(gates, own())
		}
		if r.paid {
			gates = append(gates, a.working(), namespace.Spend(a.budget))
		}
		if err := ns.Mount(r.path, service{root}, gates...); err != nil {
			panic(err) // the table above is wrong
		}
	}
	return ns
}

type service struct{ root fsys.Node }

func (s service) Root() fsys.Node { return s.root }

// levelAt is what the configuration allows at a mount: that of the longest
// path that is a prefix.
func (a *Agent) levelAt(mount string) namespace.Level {
	level, longest := namespace.Full, 0
	for path, l := range a.status.Config().Mounts {
		p := strings.TrimSuffix(path, "/")
		if (mount == path || p == "" || mount == p || strings.HasPrefix(mount, p+"/")) && len(path) > longest {
			level, longest = namespace.Level(l), len(path)
		}
	}
	return level
}

// CheckMount refuses a path at which an agent has no mount: access is decided
// there, and at no single file.
func CheckMount(path string) error {
	if slices.ContainsFunc(rows, func(r row) bool { return r.path == path }) {
		return nil
	}
	var paths []string
	for _, r := range rows {
		paths = append(paths, r.path)
	}
	return fsys.E(fsys.Invalid, "nothing is mounted at "+path+"; there are "+strings.Join(paths, " "))
}

func (a *Agent) checkConfig(c status.Config) error {
	if c.Program != nil {
		if _, err := a.program(*c.Program); err != nil {
			return err
		}
	}
	if err := tools.CheckServers(c.Tools); err != nil {
		return err
	}
	for path, l := range c.Mounts {
		if err := CheckMount(path); err != nil {
			return fsys.Wrap(fsys.Invalid, "mounts", err)
		}
		if !slices.Contains(namespace.Levels, namespace.Level(l)) {
			return fsys.E(fsys.Invalid, "mounts: "+path+" can be read-only, sign-only or disabled")
		}
	}
	return nil
}

var errStopped = fsys.E(fsys.Busy, "the agent is stopped; write start to its ctl")

// working refuses to begin what costs while the agent is stopped.
func (a *Agent) working() namespace.Option {
	return namespace.Gated(func() string { return "" }, func(ctx context.Context, op namespace.Op, effect fsys.Effect) (context.Context, error) {
		if op == namespace.Write && effect == fsys.Spends && a.Stopped() {
			return nil, errStopped
		}
		return ctx, nil
	})
}

func (a *Agent) refused(ctx context.Context, path, op string, err error) {
	if !a.gone.Load() {
		a.logs.Refused(ctx, path, op, err)
	}
}

// mountTable is the text of the mounts file: path, service, access.
func mountTable(ns *namespace.Namespace) string {
	var b strings.Builder
	for _, m := range ns.Mounts() {
		i := slices.IndexFunc(rows, func(r row) bool { return r.path == m.Path })
		access := m.Access
		if access == "" {
			access = "full"
		}
		b.WriteString(m.Path + "\t" + rows[i].service + "\t" + access + "\n")
	}
	return b.String()
}
