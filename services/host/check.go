package host

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"agent9/namespace/budget"
	"agent9/services/agent"
	"agent9/services/identity"
	"agent9/services/ticks"
	"agent9/services/tokens"
	"agent9/store"
	"agent9/store/check"
	"agent9/store/files"
)

// KeyRingPart is where the store has what the agents' keys are encrypted with.
const KeyRingPart = "keyring/"

// house is a daemon's store as its index tells of it.
type house struct {
	st               store.Updater
	r                *check.Report
	agents, accounts map[string]entry
	owners           map[string]string            // by id
	held             map[string]map[string]string // of accounts: by account and hold
	parents          map[string]string            // by child
	waiting          map[string]bool              // agents
}

// Check finds what is wrong with a daemon's store, which nobody has open. With
// a ring, also whether keys and secrets can be opened; ring may be nil.
func Check(ctx context.Context, st store.Updater, ring *identity.KeyRing, r *check.Report) error {
	if p, ok := st.(store.Prober); ok {
		err := p.Probe(ctx, func(key, what string) {
			if key == "" {
				r.At("database").Lost("the file is damaged: "+what, "put back a backup")
			} else {
				r.At(Where(ctx, st, key)).Lost(fmt.Sprintf("the record %.200q is damaged: %s", key, what), check.FromBackup)
			}
		})
		if err != nil {
			return err
		}
	}
	damaged := len(r.All()) > 0
	err := r.Damaged(checkHouse(ctx, st, ring, r))
	if damaged {
		r.Unmendable("put back a backup first: what is damaged may be what this belongs to")
	}
	return err
}

func checkHouse(ctx context.Context, st store.Updater, ring *identity.KeyRing, r *check.Report) error {
	h := &house{st: st, r: r, owners: map[string]string{}, held: map[string]map[string]string{}, parents: map[string]string{}, waiting: map[string]bool{}}
	if err := h.index(ctx); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(h.agents)) {
		if err := r.At(agentsPart + name).Damaged(h.agent(ctx, name, ring)); err != nil {
			return err
		}
	}
	if err := r.At("accounts").Damaged(h.checkAccounts(ctx)); err != nil {
		return err
	}
	if err := r.Damaged(identity.CheckRing(ctx, store.Sub(st, KeyRingPart), r.At("keyring"))); err != nil {
		return err
	}
	if err := r.At("profiles").Damaged(files.Check(ctx, store.Sub(st, profilesPart), r.At("profiles"))); err != nil {
		return err
	}
	exists := func(name string) bool { _, ok := h.agents[name]; return ok || name == tokens.AllAgents }
	if err := r.At("tokens").Damaged(tokens.Check(ctx, store.Sub(st, tokensPart), r.At("tokens"), exists)); err != nil {
		return err
	}
	there := map[string]bool{}
	for name := range h.agents {
		there[name] = true
	}
	return ticks.CheckSchedule(ctx, store.Sub(st, duePart), r.At("schedule"), there, h.waiting)
}

// index reads who there is, and finds data that is nobody's.
func (h *house) index(ctx context.Context) (err error) {
	if h.agents, err = h.entries(ctx, agentsPart, "agent"); err != nil {
		return err
	}
	if h.accounts, err = h.entries(ctx, accountsPart, "account"); err != nil {
		return err
	}
	next, err := h.st.Get(ctx, nextKey)
	last := uint64(0)
	for id := range h.owners {
		n, _ := strconv.ParseUint(id, 36, 64)
		last = max(last, n)
	}
	if n, perr := strconv.ParseUint(string(next), 10, 64); last > 0 && (err != nil || perr != nil || n <= last) {
		h.r.Mend(fmt.Sprintf("the next agent would be number %q, and there is number %d", next, last), "counts on from there", check.Put(h.st, nextKey, strconv.AppendUint(nil, last+1, 10)))
	}
	for p, err := range store.All(ctx, h.st, trashPart) {
		if err != nil {
			return err
		}
		id := p.Key[len(trashPart):]
		if owner, ok := h.owners[id]; ok {
			h.r.Mend(fmt.Sprintf("the data of %s is marked for removal, and the next start would delete it", owner), "removes the mark", check.Delete(h.st, p.Key))
		} else {
			h.owners[id] = "what was removed"
		}
	}
	return h.strays(ctx)
}

func (h *house) entries(ctx context.Context, part, what string) (map[string]entry, error) {
	stored, err := check.Records[entry](ctx, h.st, h.r, part, what)
	if err != nil {
		return nil, err
	}
	all := map[string]entry{}
	for _, key := range slices.Sorted(maps.Keys(stored)) {
		name, e := key[len(part):], stored[key]
		all[name] = e
		if other, ok := h.owners[e.text()]; ok {
			h.r.Lost(fmt.Sprintf("%s %s has the same data as %s", what, name, other), "remove one of the two from a backup that has both")
		}
		h.owners[e.text()] = what + " " + name
	}
	return all, nil
}

// strays finds data of which the index knows no owner.
func (h *house) strays(ctx context.Context) error {
	for after := ""; ; {
		page, err := h.st.List(ctx, dataPart, after, 1)
		if err != nil || len(page) == 0 {
			return err
		}
		id := check.Part(page[0].Key, dataPart)
		if _, ok := h.owners[id]; !ok {
			h.r.Lost(fmt.Sprintf("there is the data of an agent or account with the id %s, and no name leads to it", id), "nothing is lost by leaving it; a backup may have its name")
		}
		after = dataPart + id + "/" + strings.Repeat("\xff", store.MaxKey/2) // no key is greater and in this part
	}
}

func (h *house) agent(ctx context.Context, name string, ring *identity.KeyRing) error {
	st, r := store.Sub(h.st, h.agents[name].part()), h.r.At("agents/"+name)
	waits, err := agent.Check(ctx, st, r, ring, name)
	if err != nil {
		return fmt.Errorf("agent %s: %w", name, err)
	}
	if waits {
		h.waiting[name] = true
	}
	above, err := budget.Above(ctx, store.Sub(st, agent.BudgetPart), "agent "+name)
	if err != nil {
		return err
	}
	for account, holds := range above {
		if h.held[account] == nil {
			h.held[account] = map[string]string{}
		}
		maps.Copy(h.held[account], holds)
	}
	return h.parent(ctx, store.Sub(st, agent.BudgetPart), r.At("budget"), agentsPart+name)
}

// parent notes which account is above child's.
func (h *house) parent(ctx context.Context, st store.Updater, r *check.Report, child string) error {
	name, err := budget.ParentIn(ctx, st)
	if err != nil || name == "" {
		return nil // what cannot be read is a finding of its own
	}
	if _, ok := h.accounts[name]; !ok {
		r.Lost(fmt.Sprintf("the limits put the account below %s, which is not there, so that nothing can be spent", name), "mkdir accounts/"+name+", or write other limits")
	}
	h.parents[child] = name
	return nil
}

func (h *house) checkAccounts(ctx context.Context) error {
	for _, name := range slices.Sorted(maps.Keys(h.accounts)) {
		st, r := store.Sub(h.st, h.accounts[name].part()), h.r.At("accounts/"+name)
		if err := budget.Check(ctx, st, r, h.held[name]); err != nil {
			return fmt.Errorf("account %s: %w", name, err)
		}
		if err := h.parent(ctx, st, r, accountsPart+name); err != nil {
			return err
		}
	}
	below := check.Index{Prefix: underPart, What: "the index of who is below which account", Of: "account of", Want: map[string][]byte{}}
	for child, parent := range h.parents {
		below.Want[underPart+parent+"/"+child] = []byte{}
	}
	return below.Check(ctx, h.st, h.r.At("accounts"))
}
