package agent

import (
	"cmp"
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
	services := map[string]string{}
	add := func(m mount, name string, root fsys.Node) {
		if other := v.instead[m.path]; other != nil {
			root = other
		}
		services[m.path] = cmp.Or(m.service, name)
		if err := ns.Mount(m.path, service{root}, a.gates(v, m)...); err != nil {
			panic(err) // the table of the parts is wrong
		}
	}
	for i, p := range a.table {
		for j, m := range p.mounts {
			root := a.opened[i].roots[j]
			if m.path == mountsPath {
				root = fsys.Text(func(context.Context) ([]byte, error) { return mountTable(ns, services), nil })
			}
			add(m, p.name, root)
		}
	}
	if v.room != nil {
		add(mount{path: ctlPath}, "status", nil)
	}
	return ns
}

// gates are what v has to pass at m.
func (a *Agent) gates(v viewer, m mount) (gates []namespace.Option) {
	if v.rights != nil {
		read, write := v.rights(m.path)
		gates = append(gates, namespace.Allow(read, write))
	}
	if !v.operator {
		gates = append(gates, namespace.Access(func() namespace.Level { return a.levelAt(m.path) }))
		if m.admin {
			gates = append(gates, namespace.Always(namespace.ReadOnly))
		}
	}
	if v.room != nil {
		gates = append(gates, own())
	}
	if v.token != "" {
		gates = append(gates, namespace.Token(v.token))
	}
	if m.paid {
		gates = append(gates, a.working(), namespace.Spend(a.budget))
	}
	return gates
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
	for i, o := range a.opened {
		if o.cancel == nil {
			continue
		}
		if at := a.table[i].mounts[0].path; a.levelAt(at) == namespace.Disabled {
			errs = append(errs, o.cancel(a.usable(at)))
		}
	}
	return errors.Join(errs...)
}

// CheckMount refuses a path at which an agent has no mount: access is decided
// there, and at no single file.
func CheckMount(path string) error {
	found, all := parts().mountedAt(path)
	if found {
		return nil
	}
	return fsys.E(fsys.Invalid, "nothing is mounted at "+path+"; there are "+strings.Join(all, " "))
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
func mountTable(ns *namespace.Namespace, services map[string]string) []byte {
	var b []byte
	for _, m := range ns.Mounts() {
		b = append(b, m.Path+"\t"+services[m.Path]+"\t"+cmp.Or(m.Access, "full")+"\n"...)
	}
	return b
}
