package agent

import (
	"context"
	"fmt"
	"maps"

	"agent9/namespace/budget"
	"agent9/services/compute"
	"agent9/services/containers"
	"agent9/services/identity"
	"agent9/services/inbox"
	"agent9/services/logs"
	"agent9/services/secrets"
	"agent9/services/sessions"
	"agent9/services/status"
	"agent9/services/ticks"
	"agent9/services/tools"
	"agent9/store"
	"agent9/store/check"
	"agent9/store/files"
)

// checks are those of the parts of an agent that need nothing of each other.
var checks = []struct {
	part  string
	check func(context.Context, store.Updater, *check.Report) error
}{
	{logsPart, logs.Check},
	{inboxPart, inbox.Check},
	{outboxPart, inbox.CheckOutbox},
	{goalsPart, files.Check},
	{skillsPart, files.Check},
	{statePart, files.Check},
	{sessionsPart, sessions.Check},
	{computePart, compute.Check},
	{containersPart, containers.Check},
}

// Check finds what is wrong with the agent called name, whose part of the store
// is st, and reports whether something waits for a tick. ring may be nil.
func Check(ctx context.Context, st store.Updater, r *check.Report, ring *identity.KeyRing, name string) (waits bool, err error) {
	for _, c := range checks {
		r := r.At(c.part[:len(c.part)-1])
		if err := r.Damaged(c.check(ctx, store.Sub(st, c.part), r)); err != nil {
			return false, err
		}
	}
	if err := identity.Check(ctx, store.Sub(st, identityPart), r.At("identity"), ring, name); err != nil {
		return false, err
	}
	var box secrets.Sealer
	if ring != nil {
		box = ring.Box(secretsBox)
	}
	if err := secrets.Check(ctx, store.Sub(st, secretsPart), r.At("secrets"), box, name); err != nil {
		return false, err
	}
	works, err := works(ctx, st)
	if err != nil {
		return false, err
	}
	if err := budget.Check(ctx, store.Sub(st, BudgetPart), r.At("budget"), works); err != nil {
		return false, err
	}
	return checkTicks(ctx, st, r)
}

// works returns what the agent's work holds of its account.
func works(ctx context.Context, st store.Updater) (map[string]string, error) {
	all := map[string]string{}
	for part, holds := range map[string]func(context.Context, store.Store) (map[string]string, error){
		computePart: compute.Holds, containersPart: containers.Holds, toolsPart: tools.Holds,
	} {
		some, err := holds(ctx, store.Sub(st, part))
		if err != nil {
			return nil, err
		}
		maps.Copy(all, some)
	}
	return all, nil
}

func checkTicks(ctx context.Context, st store.Updater, r *check.Report) (waits bool, err error) {
	config, _, err := status.Check(ctx, store.Sub(st, statusPart), r.At("config"))
	if err != nil {
		return false, err
	}
	mode, waits, err := ticks.Check(ctx, store.Sub(st, ticksPart), r.At("ticks"))
	if err != nil {
		return false, err
	}
	if mode.Messages && !waits {
		free, taken, err := inbox.New(store.Sub(st, inboxPart), inbox.Options{}).Waiting(ctx, nil, nil)
		if err != nil {
			r.At("inbox").Lost(fmt.Sprintf("whether a message waits cannot be read: %v", err), check.FromBackup)
		}
		waits = free || taken
	}
	// An agent whose store was filled by other means finds out in its first
	// turn what its configuration says.
	return waits || config.Program != nil && !mode.Program, nil
}
