package namespace

import (
	"context"
	"sync/atomic"

	"agent9/fsys"
	"agent9/namespace/budget"
)

// An Op is what a gate is asked about.
type Op uint8

const (
	Look   Op = iota // walk, stat
	Read             // open for reading, list
	Write            // open for writing, truncate; also for reading what a read takes away
	Change           // create, mkdir, rename, remove, set attributes
)

// A Gate is asked before an operation below its mount; effect says what a
// Write would bring about. It returns an error, which refuses the operation,
// or a context for it, which may carry more. A handle keeps the values of the
// context that it was opened with, so reads and writes cost a gate nothing.
type Gate func(ctx context.Context, op Op, effect fsys.Effect) (context.Context, error)

// An Option of a mount.
type Option func(*mount)

// mount is an entry of the table.
type mount struct {
	ns     *Namespace
	path   string
	root   fsys.Node
	gates  []Gate
	names  []func() string
	hidden []func() bool
	gone   atomic.Bool
}

func (m *mount) isHidden() bool {
	if m.ns.ended() {
		return true
	}
	for _, h := range m.hidden {
		if h() {
			return true
		}
	}
	return false
}

// over reports, as an error, that what is open below m cannot be used any
// longer. A mount that was only taken away lets it be.
func (m *mount) over() error {
	if m.ns.ended() {
		return fsys.NotExist
	}
	return nil
}

func (m *mount) access() string {
	var all string
	for _, name := range m.names {
		if n := name(); n != "" && all != "" {
			all += "," + n
		} else {
			all += n
		}
	}
	return all
}

func (m *mount) ask(ctx context.Context, op Op, effect fsys.Effect) (context.Context, error) {
	if m.gone.Load() || m.isHidden() {
		return nil, fsys.NotExist
	}
	var err error
	for _, g := range m.gates {
		if ctx, err = g(ctx, op, effect); err != nil {
			return nil, err
		}
	}
	return ctx, nil
}

// Gated puts g before a mount; name is shown in the mount table.
func Gated(name func() string, g Gate) Option {
	return func(m *mount) {
		m.gates = append(m.gates, g)
		m.names = append(m.names, name)
	}
}

// A Level is how much of a mount may be used.
type Level string

const (
	Full     Level = ""          // all that the service allows
	ReadOnly Level = "read-only" // no change; questions may be asked
	SignOnly Level = "sign-only" // as ReadOnly, and signing
	NoRead   Level = "write-only"
	Disabled Level = "disabled" // not there at all
)

// Levels are the levels that a configuration may name.
var Levels = []Level{ReadOnly, SignOnly, Disabled}

// Access limits a mount to what level then returns: it is asked each time, so
// a change acts at once, also on files that were walked to before.
func Access(level func() Level) Option {
	return func(m *mount) {
		m.hidden = append(m.hidden, func() bool { return level() == Disabled })
		Gated(func() string { return string(level()) }, func(ctx context.Context, op Op, effect fsys.Effect) (context.Context, error) {
			return ctx, level().check(op, effect)
		})(m)
	}
}

// Always is an Access that does not change.
func Always(l Level) Option { return Access(func() Level { return l }) }

// Allow is an Access by what may be done.
func Allow(read, write bool) Option {
	switch {
	case read && write:
		return Always(Full)
	case read:
		return Always(ReadOnly)
	case write:
		return Always(NoRead)
	}
	return Always(Disabled)
}

// check is the one place that says what a level allows.
func (l Level) check(op Op, effect fsys.Effect) error {
	switch l {
	case Full:
		return nil
	case NoRead:
		if op == Read {
			return fsys.E(fsys.Permission, "you may not read here")
		}
		return nil
	}
	switch {
	case op == Look, op == Read:
		return nil
	case op == Write && effect == fsys.Computes:
		return nil
	case op == Write && effect == fsys.Signs && l == SignOnly:
		return nil
	}
	return fsys.E(fsys.Permission, "this is "+string(l)+" for you")
}

// Spend lets what is done below the mount be paid from a.
func Spend(a *budget.Account) Option {
	return Gated(func() string { return "budgeted" }, func(ctx context.Context, _ Op, _ fsys.Effect) (context.Context, error) {
		return budget.With(ctx, a), nil
	})
}
