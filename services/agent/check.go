package agent

import (
	"context"
	"fmt"
	"maps"

	"agent9/namespace/budget"
	"agent9/services/identity"
	"agent9/services/inbox"
	"agent9/services/secrets"
	"agent9/services/status"
	"agent9/services/ticks"
	"agent9/store"
	"agent9/store/check"
)

// examined is what the checks of an agent's parts know of it and of each other.
type examined struct {
	name  string
	ring  *identity.KeyRing // may be nil
	holds map[string]string // what its work holds of its account

	config status.Config
	mode   ticks.Mode
	waits  bool // for a tick
}

// alone is a check that needs nothing of others.
func alone(f func(context.Context, store.Updater, *check.Report) error) func(context.Context, store.Updater, *check.Report, *examined) error {
	return func(ctx context.Context, st store.Updater, r *check.Report, _ *examined) error {
		return r.Damaged(f(ctx, st, r))
	}
}

// Check finds what is wrong with the agent called name, whose part of the store
// is st, and reports whether something waits for a tick. ring may be nil.
func Check(ctx context.Context, st store.Updater, r *check.Report, ring *identity.KeyRing, name string) (waits bool, err error) {
	x := &examined{name: name, ring: ring, holds: map[string]string{}}
	for _, p := range parts() {
		if p.holds == nil {
			continue
		}
		some, err := p.holds(ctx, store.Sub(st, p.prefix()))
		if err != nil {
			return false, err
		}
		maps.Copy(x.holds, some)
	}
	for _, p := range parts() {
		if p.check == nil {
			continue
		}
		if err := p.check(ctx, store.Sub(st, p.prefix()), r.At(p.name), x); err != nil {
			return false, err
		}
	}
	if x.mode.Messages && !x.waits {
		free, taken, err := inbox.New(store.Sub(st, inboxPart), inbox.Options{}).Waiting(ctx, nil, nil)
		if err != nil {
			r.At("inbox").Lost(fmt.Sprintf("whether a message waits cannot be read: %v", err), check.FromBackup)
		}
		x.waits = free || taken
	}
	// An agent whose store was filled by other means finds out in its first
	// turn what its configuration says.
	return x.waits || x.config.Program != nil && !x.mode.Program, nil
}

func checkIdentity(ctx context.Context, st store.Updater, r *check.Report, x *examined) error {
	return identity.Check(ctx, st, r, x.ring, x.name)
}

func checkSecrets(ctx context.Context, st store.Updater, r *check.Report, x *examined) error {
	var box secrets.Sealer
	if x.ring != nil {
		box = x.ring.Box(secretsBox)
	}
	return secrets.Check(ctx, st, r, box, x.name)
}

func checkBudget(ctx context.Context, st store.Updater, r *check.Report, x *examined) error {
	return budget.Check(ctx, st, r, x.holds)
}

func checkStatus(ctx context.Context, st store.Updater, r *check.Report, x *examined) (err error) {
	x.config, _, err = status.Check(ctx, st, r)
	return err
}

func checkTicks(ctx context.Context, st store.Updater, r *check.Report, x *examined) (err error) {
	x.mode, x.waits, err = ticks.Check(ctx, st, r)
	return err
}
