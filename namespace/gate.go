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
// context that it was opened with; of the gates only the levels of [Access] are
// asked again when it is used.
type Gate func(ctx context.Context, op Op, effect fsys.Effect) (context.Context, error)

// An Option of a mount.
type Option func(*mount)

// mount is an entry of the table.
type mount struct {
	ns     *Namespace
	path   string
	root   *guard
	gates  []Gate
	names  []func() string
	levels []func() Level
	gone   atomic.Bool
}

func (m *mount) isHidden() bool {
	for _, level := range m.levels {
		if level() == Disabled {
			return true
		}
	}
	return m.ns.over() != nil
}

// still reports, as an error, that what is open below m may not be used for op
// any longer. A mount that was only taken away lets it be.
func (m *mount) still(op Op, effect fsys.Effect) error {
	if err := m.ns.over(); err != nil {
		return err
	}
	for _, level := range m.levels {
		if err := level().Check(op, effect); err != nil {
			return err
		}
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
	err := m.still(op, effect)
	if err == nil && m.gone.Load() {
		err = fsys.NotExist
	}
	if err != nil {
		return nil, err
	}
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
// a change acts at once, also on files that were walked to or opened before.
func Access(level func() Level) Option {
	return func(m *mount) {
		m.levels = append(m.levels, level)
		m.names = append(m.names, func() string { return string(level()) })
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

// Check is the one place that says what a level allows.
func (l Level) Check(op Op, effect fsys.Effect) error {
	switch l {
	case Full:
		return nil
	case Disabled:
		return fsys.NotExist
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

// Token marks what is asked for as having come with the token of this id.
func Token(id string) Option {
	return Gated(func() string { return "" }, func(ctx context.Context, _ Op, _ fsys.Effect) (context.Context, error) {
		return fsys.WithToken(ctx, id), nil
	})
}

// Spend lets what is done below the mount be paid from a.
func Spend(a *budget.Account) Option {
	return Gated(func() string { return "budgeted" }, func(ctx context.Context, _ Op, _ fsys.Effect) (context.Context, error) {
		return budget.With(ctx, a), nil
	})
}
