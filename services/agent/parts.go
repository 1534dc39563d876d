package agent

import (
	"context"
	"iter"
	"slices"

	"agent9/fsys"
	"agent9/namespace/budget"
	"agent9/services/compute"
	"agent9/services/containers"
	"agent9/services/inbox"
	"agent9/services/logs"
	"agent9/services/sessions"
	"agent9/services/status"
	"agent9/services/tools"
	"agent9/store"
	"agent9/store/check"
	"agent9/store/files"
)

// A part is a service of an agent. Its records are below its name in the agent's
// part of the store. Besides name and open, each field may be empty.
type part struct {
	name   string
	open   func(ctx context.Context, env Env) (opened, error)
	mounts []mount
	// front marks a part that has others do its work: it ends before they do.
	front bool

	// create writes what a new agent begins with.
	create func(ctx context.Context, tx store.Store, house *House, name string) error
	// check finds what is wrong with the part, which nobody has open.
	check func(ctx context.Context, st store.Updater, r *check.Report, x *examined) error
	// holds names what the part's work holds of the account.
	holds func(ctx context.Context, st store.Store) (map[string]string, error)
	// interrupted reports work that open or start goes on with.
	interrupted func(ctx context.Context, st store.Store) (bool, error)
	// setting says which records a clone is given: what was set or written for
	// the agent, and not what happened to it. Without it, none.
	setting func(key string) bool
	// arrive is what becomes of a record that comes in a bundle: what belongs to
	// the machine that it comes from does not travel. Without it, all does.
	arrive func(store.Pair) ([]store.Pair, error)
	// reseal copies records that open with the daemon's master key. They travel
	// only sealed under a passphrase.
	reseal func(ctx context.Context, from, to keys) error
	// where names the file below the mount that a key belongs to. Without it,
	// keys are those of numbered work.
	where func(ctx context.Context, st store.Store, key string) string
}

// A mount is where a part is seen.
type mount struct {
	path    string
	service string // shown in the mount table, instead of the part's name
	admin   bool   // only the operator may write
	paid    bool   // from the agent's budget
}

// An Env is what a part is opened with. The parts above it in the table are open.
type Env struct {
	*House
	Agent *Agent
	ID    string // no other agent has ever had it
	Store store.Updater
	Note  store.Note
}

// opened is what an open part can do. Each field may be nil.
type opened struct {
	roots  []fsys.Node                     // in the order of the part's mounts
	start  func() error                    // goes on with what waits: all parts are open, and the agent is not stopped
	stop   func()                          // ends what runs: the agent was stopped
	cancel func(why error) error           // ends what waits, too: the first mount was disabled, or, for no reason, the agent was stopped
	end    func()                          // ends what is read: the agent was removed
	wait   func(ctx context.Context) error // until what runs has ended
	close  func(ctx context.Context) error // ends what runs, and waits
}

type table []part

// The names of parts that are looked up, as prefixes in the store.
const (
	BudgetPart     = "budget/"
	statusPart     = "status/"
	inboxPart      = "inbox/"
	identityPart   = "identity/"
	secretsPart    = "secrets/"
	containersPart = "containers/"
)

// parts returns the table, in the order in which parts are opened.
func parts() table {
	return table{
		{name: "logs", open: openLogs, check: alone(logs.Check), where: firstName,
			mounts: []mount{{path: "/logs"}}},
		{name: "identity", open: openIdentity, create: createIdentity, check: checkIdentity, reseal: resealIdentity, where: firstName,
			mounts: []mount{{path: "/identity"}}},
		{name: "ticks", open: openTicks, front: true, check: checkTicks,
			mounts: []mount{{path: "/logs/output"}}},
		{name: "status", open: openStatus, create: createStatus, check: checkStatus, setting: status.IsSetting,
			mounts: []mount{{path: "/"}, {path: mountsPath}, {path: "/config", admin: true}}},
		{name: "budget", open: openBudget, front: true, check: checkBudget, setting: budget.IsSetting,
			mounts: []mount{{path: "/budget", admin: true}, {path: "/approvals", admin: true}}},
		{name: "inbox", open: openInbox, check: alone(inbox.Check), where: inboxFile,
			mounts: []mount{{path: "/inbox"}, {path: "/deadletter"}}},
		{name: "outbox", open: openOutbox, check: alone(inbox.CheckOutbox),
			mounts: []mount{{path: outboxPath, service: "inbox"}}},
		{name: "goals", open: openGoals, check: alone(files.Check), interrupted: files.Untold, setting: all, where: files.Where,
			mounts: []mount{{path: goalsPath}}},
		{name: "state", open: openState, check: alone(files.Check), interrupted: files.Untold, where: files.Where,
			mounts: []mount{{path: statePath}}},
		{name: "skills", open: openSkills, check: alone(files.Check), setting: all, where: files.Where,
			mounts: []mount{{path: skillsPath}}},
		{name: "secrets", open: openSecrets, check: checkSecrets, reseal: resealSecrets, where: firstName,
			mounts: []mount{{path: "/secrets", admin: true}}},
		{name: "compute", open: openCompute, check: alone(compute.Check), holds: compute.Holds, interrupted: compute.Interrupted,
			setting: compute.IsSetting, arrive: compute.Arrive,
			mounts: []mount{{path: computePath, paid: true}, {path: "/compute/policy", admin: true}}},
		{name: "tools", open: openTools, holds: tools.Holds, interrupted: tools.Interrupted,
			mounts: []mount{{path: "/tools", paid: true}}},
		{name: "containers", open: openContainers, check: alone(containers.Check), holds: containers.Holds, interrupted: containers.Interrupted,
			setting: containers.IsSetting, arrive: containers.Arrive,
			mounts: []mount{{path: containersPath, paid: true}, {path: "/containers/policy", admin: true}}},
		{name: "sessions", open: openSessions, front: true, check: alone(sessions.Check), interrupted: sessions.Interrupted, arrive: sessions.Arrive,
			mounts: []mount{{path: "/sessions", paid: true}}},
	}
}

// HasPart reports whether an agent has a part of this name.
func HasPart(name string) bool { return parts().named(name) != nil }

func all(string) bool { return true }

// prefix is that of the part's keys.
func (p part) prefix() string { return p.name + "/" }

// named returns the part of that name, or nil.
func (t table) named(name string) *part {
	for i := range t {
		if t[i].name == name {
			return &t[i]
		}
	}
	return nil
}

// mountedAt reports whether a part has a mount at path, and lists those that
// there are.
func (t table) mountedAt(path string) (found bool, all []string) {
	for _, p := range t {
		for _, m := range p.mounts {
			all = append(all, m.path)
			found = found || m.path == path
		}
	}
	return found, all
}

// ending yields the places of the parts in the order in which they end: those
// that have others do their work first, else the last one first.
func (t table) ending() iter.Seq[int] {
	return func(yield func(int) bool) {
		for _, front := range []bool{true, false} {
			for i, p := range slices.Backward(t) {
				if p.front == front && !yield(i) {
					return
				}
			}
		}
	}
}
