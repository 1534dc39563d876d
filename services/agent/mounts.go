package agent

import (
	"context"
	"errors"
	"slices"
	"strings"

	"agent9/fsys"
	"agent9/namespace"
	"agent9/services/secrets"
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
	mountsPath = "/mounts"
	skillsPath = "/skills"

	computePath    = "/compute"
	containersPath = "/containers"
	ctlPath        = "/ctl" // only in a tick
)

var rows = []row{
	{path: "/", service: "status", root: func(a *Agent) fsys.Node { return a.status.Root() }},
	{path: mountsPath, service: "status"},
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
	{path: skillsPath, service: "skills", root: func(a *Agent) fsys.Node { return a.skills.Root() }},
	{path: "/tools", service: "tools", root: func(a *Agent) fsys.Node { return a.tools.Root() }, paid: true},
	{path: "/identity", service: "identity", root: func(a *Agent) fsys.Node { return a.identity.Root() }},
	{path: "/secrets", service: "secrets", root: func(a *Agent) fsys.Node { return a.secrets.Root() }, admin: true},
	{path: computePath, service: "compute", root: func(a *Agent) fsys.Node { return a.compute.Root() }, paid: true},
	{path: containersPath, service: "containers", root: func(a *Agent) fsys.Node { return a.sandboxes.Root() }, paid: true},
	{path: "/containers/policy", service: "containers", root: func(a *Agent) fsys.Node { return a.sandboxes.Policy() }, admin: true},
	{path: "/sessions", service: "sessions", root: func(a *Agent) fsys.Node { return a.sessions.Root() }, paid: true},
	{path: "/compute/policy", service: "compute", root: func(a *Agent) fsys.Node { return a.compute.Policy() }, admin: true},
}

// viewer is who a tree is for.
type viewer struct {
	operator bool
	token    string                                // its id, or nothing
	rights   func(mount string) (read, write bool) // nil: all
	over     func() error                          // why this viewer sees nothing any longer; nil: never
	// room is that of a tick, and instead what is mounted there in place of
	// the roots of rows, or beside them; nil for everybody else.
	room    *room
	instead map[string]fsys.Node
}

// view builds the tree that v sees.
func (a *Agent) view(v viewer) *namespace.Namespace {
	ns := &namespace.Namespace{Refused: a.refused, ID: fsys.ID{In: a}, Over: func() error { return a.over(v) }}
	rows := rows
	if v.room != nil {
		rows = append(slices.Clip(rows), row{path: ctlPath, service: "status"})
	}
	for _, r := range rows {
		root := v.instead[r.path]
		switch {
		case root != nil:
		case r.path == mountsPath:
			root = fsys.Text(func(context.Context) ([]byte, error) { return mountTable(ns, rows), nil })
		default:
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
		if v.token != "" {
			gates = append(gates, namespace.Token(v.token))
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

// over is why v sees nothing any longer, or nil.
func (a *Agent) over(v viewer) error {
	switch {
	case a.gone.Load(), v.room != nil && v.room.over.Load():
		return fsys.NotExist
	case v.over != nil:
		return v.over()
	}
	return nil
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

// usable says why the agent may begin nothing that costs at mount, or nil.
func (a *Agent) usable(mount string) error {
	level := a.levelAt(mount)
	if level.Check(namespace.Write, fsys.Spends) == nil {
		return nil
	}
	return fsys.E(fsys.Permission, mount+" is "+string(level)+" for "+a.Name+" by its config")
}

// allowed is usable for who asks: the operator always may.
func (a *Agent) allowed(mount string) func(context.Context) error {
	return func(ctx context.Context) error {
		if fsys.CallerOf(ctx) == fsys.Operator {
			return nil
		}
		return a.usable(mount)
	}
}

// endDisabled ends what waits or runs where the configuration has a mount
// disabled.
func (a *Agent) endDisabled() error {
	var errs []error
	for mount, end := range map[string]func(why error) error{
		computePath: a.compute.CancelAll, containersPath: a.sandboxes.StopAll,
	} {
		if a.levelAt(mount) == namespace.Disabled {
			errs = append(errs, end(a.usable(mount)))
		}
	}
	return errors.Join(errs...)
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
	if err := secrets.CheckBindings(c.Secrets); err != nil {
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
func mountTable(ns *namespace.Namespace, rows []row) []byte {
	var b []byte
	for _, m := range ns.Mounts() {
		i := slices.IndexFunc(rows, func(r row) bool { return r.path == m.Path })
		access := m.Access
		if access == "" {
			access = "full"
		}
		b = append(b, m.Path+"\t"+rows[i].service+"\t"+access+"\n"...)
	}
	return b
}
