package host

import (
	"context"
	"encoding/json"
	"io/fs"
	"log/slog"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"weak"

	"github.com/xrash/smetrics"

	"agent9/fsys"
	"agent9/services/agent"
	"agent9/services/ticks"
	"agent9/store"
)

// The parts of the daemon's store.
const (
	agentsPart = "agents/" // name → entry
	dataPart   = "data/"   // id/… → all that an agent or account has
	trashPart  = "trash/"  // id → of one removed since the start, or before it
	tokensPart = "tokens/"
	duePart    = "due/" // which agents have something to do, and when

	profilesPart = "profiles/"
	nextKey      = "next" // the id of the next agent or account
)

// entry is what the index says of an agent or an account. Its id is used once, so that a
// new one of an old name has nothing of the old one.
type entry struct {
	ID uint64 `json:"id"`
}

func (e entry) text() string { return strconv.FormatUint(e.ID, 36) }

func (e entry) part() string  { return dataPart + e.text() + "/" }
func (e entry) trash() string { return trashPart + e.text() }

// agents is the directory of all agents: mkdir creates one, rmdir removes it.
// An agent is built when somebody walks into it and goes when nobody refers
// to it any longer, so one that is idle costs nothing but its index entry.
type agents struct {
	st    store.Updater
	house *agent.House
	// byDefault makes an agent from the default profile, if there is one.
	byDefault func(ctx context.Context, name string) (e entry, made bool, err error)
	// settleAbove returns what settles what an agent, which cannot say so itself, holds
	// of the accounts above it, and takes it from below them.
	settleAbove func(ctx context.Context, name string) (settle func(tx store.Store) error, err error)
	// ended is told of an agent's name once it was removed; it may change
	// more in the same transaction.
	ended func(ctx context.Context, tx store.Store, name string) error

	mu   sync.Mutex
	live map[string]*slot
}

// slot builds one agent at a time.
type slot struct {
	mu    sync.Mutex
	id    uint64 // of what agent points to
	agent weak.Pointer[agent.Agent]
	users int // who hold or wait for mu; guarded by agents.mu
}

func (s *agents) entry(ctx context.Context, tx store.Store, name string) (entry, error) {
	var e entry
	b, err := tx.Get(ctx, agentsPart+name)
	if err != nil {
		return e, err
	}
	return e, fsys.Wrap(fsys.Internal, "the index entry of agent "+name, json.Unmarshal(b, &e))
}

// find returns the agent that is called name now, built if need be.
func (s *agents) find(ctx context.Context, name string) (*agent.Agent, error) {
	e, err := s.entry(ctx, s.st, name)
	if err != nil {
		return nil, err
	}
	return s.build(ctx, name, e)
}

// build returns the agent of an index entry, of which there is never more
// than one in memory.
func (s *agents) build(ctx context.Context, name string, e entry) (*agent.Agent, error) {
	slot := s.enter(name)
	defer s.leave(name, slot)
	slot.mu.Lock()
	defer slot.mu.Unlock()
	if a := slot.agent.Value(); a != nil && slot.id == e.ID {
		return a, nil
	}
	// Under the lock, so that what was removed since is not built again.
	if now, err := s.entry(ctx, s.st, name); err != nil {
		return nil, err
	} else if now != e {
		return nil, fsys.NotExist
	}
	a, err := agent.Open(ctx, store.Sub(s.st, e.part()), s.house, name, e.text())
	if err != nil {
		return nil, fsys.Wrap(fsys.Internal, "agent "+name, err)
	}
	slot.id, slot.agent = e.ID, weak.Make(a)
	runtime.AddCleanup(a, s.sweep, name)
	return a, nil
}

func (s *agents) enter(name string) *slot {
	s.mu.Lock()
	defer s.mu.Unlock()
	sl := s.live[name]
	if sl == nil {
		sl = &slot{}
		s.live[name] = sl
	}
	sl.users++
	return sl
}

func (s *agents) leave(name string, sl *slot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sl.users--
	s.drop(name, sl)
}

// sweep forgets an agent that was collected.
func (s *agents) sweep(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sl := s.live[name]; sl != nil {
		s.drop(name, sl)
	}
}

func (s *agents) drop(name string, sl *slot) {
	if sl.users == 0 && sl.agent.Value() == nil && s.live[name] == sl {
		delete(s.live, name)
	}
}

// inMemory returns the agents that somebody refers to.
func (s *agents) inMemory() (all []*agent.Agent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sl := range s.live {
		if a := sl.agent.Value(); a != nil {
			all = append(all, a)
		}
	}
	return all
}

// Walk is a keyed look-up. It builds nothing: that is for who goes on.
func (s *agents) Walk(ctx context.Context, name string) (fsys.Node, error) {
	if fsys.CheckName(name) != nil {
		return nil, fsys.NotExist
	}
	e, err := s.entry(ctx, s.st, name)
	if err != nil && !store.IsDamaged(err) { // what is damaged can be removed
		return nil, s.unknown(ctx, name, err)
	}
	return &home{s, name, e}, nil
}

// maxNear is how many agents are looked at for one with a name much like
// another.
const maxNear = 1000

// unknown says of err, if it is that there is no agent called name, so, and
// which one may have been meant.
func (s *agents) unknown(ctx context.Context, name string, err error) error {
	if fsys.CodeOf(err) != fsys.NotExist || checkName(name) != nil {
		return err
	}
	best, most := "", 0.8
	page, lerr := store.Forgiving(s.st).List(ctx, agentsPart, "", maxNear)
	for _, p := range page {
		other := strings.TrimPrefix(p.Key, agentsPart)
		if like := smetrics.JaroWinkler(name, other, 0.7, 4); like > most {
			best, most = other, like
		}
	}
	reason := "no agent " + name
	if best != "" && lerr == nil {
		reason += "; did you mean " + best + "?"
	}
	return fsys.E(fsys.NotExist, reason)
}

func (s *agents) List(ctx context.Context) ([]fsys.Entry, error) {
	var list []fsys.Entry
	for pair, err := range store.All(ctx, store.Forgiving(s.st), agentsPart) {
		if err != nil {
			return nil, err
		}
		var e entry // of no agent, if it is damaged
		if err := json.Unmarshal(pair.Value, &e); err != nil && pair.Value != nil {
			return nil, fsys.Wrap(fsys.Internal, "the index entry "+pair.Key, err)
		}
		name := strings.TrimPrefix(pair.Key, agentsPart)
		list = append(list, fsys.Entry{Name: name, Node: &home{s, name, e}})
	}
	return list, nil
}

// maxName bounds the name of an agent, which is also part of a socket's path.
const maxName = 63

// checkName reports whether name can be that of an agent or an account.
func checkName(name string) error {
	for _, r := range name {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_', r == '.':
		default:
			return fsys.E(fsys.Invalid, "a name here is made of letters, digits, and - _ . only")
		}
	}
	if len(name) > maxName || name == "" || name[0] == '.' || name[0] == '-' {
		return fsys.E(fsys.Invalid, "a name here has 1 to 63 letters, and does not begin with . or -")
	}
	if fsys.Caller(name) == fsys.Operator { // what it did would count as the operator's
		return fsys.E(fsys.Invalid, "no agent can be called "+name)
	}
	return nil
}

func (s *agents) Mkdir(ctx context.Context, name string, _ fs.FileMode) (fsys.Node, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	if e, made, err := s.byDefault(ctx, name); err != nil || made {
		return &home{s, name, e}, err
	}
	var e entry
	err := s.st.Update(ctx, func(tx store.Store) error {
		if err := s.vacant(ctx, tx, name); err != nil {
			return err
		}
		next, err := nextID(ctx, tx)
		if err != nil {
			return err
		}
		e = entry{ID: next}
		if err := tx.Put(ctx, agentsPart+name, fsys.Line(e)); err != nil {
			return err
		}
		return agent.Create(ctx, tx, store.Sub(s.st, e.part()), s.house, name)
	})
	if err != nil {
		return nil, err
	}
	s.house.Happened(name, happened(s.house.Now(), "agent.created"))
	return &home{s, name, e}, nil
}

// nextID returns an id that no agent or account ever had.
func nextID(ctx context.Context, tx store.Store) (uint64, error) {
	id := uint64(1)
	switch b, err := tx.Get(ctx, nextKey); {
	case err == nil:
		if id, err = strconv.ParseUint(string(b), 10, 64); err != nil {
			return 0, fsys.Wrap(fsys.Internal, "the next id", err)
		}
	case fsys.CodeOf(err) != fsys.NotExist:
		return 0, err
	}
	return id, tx.Put(ctx, nextKey, []byte(strconv.FormatUint(id+1, 10)))
}

// remove deletes a stopped agent, and then all that it had.
func (s *agents) remove(ctx context.Context, name string, e entry) error {
	err := s.removeWhole(ctx, name, e)
	if store.IsDamaged(err) {
		err = s.removeDamaged(ctx, name, e)
	}
	if err != nil {
		return err
	}
	s.house.Happened(name, happened(s.house.Now(), "agent.removed"))
	if e.ID == 0 {
		return nil // which data it had is not known: agentd fsck names it
	}
	if err := empty(context.WithoutCancel(ctx), s.st, e.text()); err != nil {
		slog.Warn("the data of a removed agent is left for the next start", "agent", name, "err", err)
	}
	return nil
}

func (s *agents) removeWhole(ctx context.Context, name string, e entry) error {
	a, err := s.build(ctx, name, e)
	if err != nil {
		return err
	}
	if !a.Stopped() {
		return fsys.E(fsys.Busy, "stop the agent first: echo stop > agents/"+name+"/ctl, or agentctl stop "+name)
	}
	if err := a.Wait(ctx); err != nil { // for what the stop has cut off
		return err
	}
	if err := a.Purge(ctx); err != nil {
		return err
	}
	return s.st.Update(ctx, func(tx store.Store) error {
		if err := s.unlist(ctx, tx, name, e); err != nil {
			return err
		}
		if err := a.Leave(ctx, tx); err != nil {
			return err
		}
		store.After(tx, a.Remove)
		return s.ended(ctx, tx, name)
	})
}

// unlist takes the agent of e out of the index, and marks what it had for removal.
func (s *agents) unlist(ctx context.Context, tx store.Store, name string, e entry) error {
	switch now, err := s.entry(ctx, store.Forgiving(tx), name); {
	case err != nil && !(store.IsDamaged(err) && e.ID == 0):
		return err
	case now != e:
		return fsys.NotExist
	}
	if err := tx.Delete(ctx, agentsPart+name); err != nil || e.ID == 0 {
		return err
	}
	return tx.Put(ctx, e.trash(), []byte(name))
}

// removeDamaged removes an agent that cannot be built, or left, because what there
// is of it is damaged. Nothing of its own is read: what it holds of the accounts
// above counts as spent there, and its sandboxes are removed at the next start.
func (s *agents) removeDamaged(ctx context.Context, name string, e entry) error {
	slot := s.enter(name)
	defer s.leave(name, slot)
	slot.mu.Lock()
	defer slot.mu.Unlock()
	a := slot.agent.Value()
	if a != nil && (slot.id != e.ID || !a.Stopped()) {
		return fsys.E(fsys.Busy, "stop the agent first; what there is of it is damaged")
	}
	settle, err := s.settleAbove(ctx, name)
	if err != nil {
		return err
	}
	err = s.st.Update(ctx, func(tx store.Store) error {
		if err := s.unlist(ctx, tx, name, e); err != nil {
			return err
		}
		if err := settle(tx); err != nil {
			return err
		}
		if err := s.house.Due(ctx, tx, name, ticks.Due{}); err != nil {
			return err
		}
		if a != nil {
			store.After(tx, a.Remove)
		}
		return s.ended(ctx, tx, name)
	})
	if err == nil {
		slog.Warn("an agent was removed that was damaged: what it held of the accounts above it counts as spent, and its sandboxes are removed at the next start", "agent", name)
	}
	return err
}

// sweepPage is how many keys of a removed agent go in one transaction.
const sweepPage = 512

// finish deletes the data of agents and accounts that were removed, at the
// start of a daemon: what a crash has left of it, and writes that were under
// way when their agent was removed.
func finish(ctx context.Context, st store.Updater) error {
	for pair, err := range store.All(ctx, store.Forgiving(st), trashPart) {
		if err == nil {
			err = empty(ctx, st, strings.TrimPrefix(pair.Key, trashPart))
		}
		if err == nil {
			err = st.Delete(ctx, pair.Key)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// empty deletes the data of the agent or account that had this id, damaged or
// not.
func empty(ctx context.Context, st store.Updater, id string) error {
	for after, more := "", true; more; {
		err := st.Update(ctx, func(tx store.Store) error {
			page, err := store.Forgiving(tx).List(ctx, dataPart+id+"/", after, sweepPage)
			if err != nil {
				return err
			}
			more = len(page) == sweepPage
			for _, p := range page {
				if err := tx.Delete(ctx, p.Key); err != nil {
					return err
				}
				after = p.Key
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// home is an agent's directory as the operator sees it.
type home struct {
	agents *agents
	name   string
	entry  entry
}

var (
	_ fsys.Creator = (*home)(nil)
	_ fsys.Maker   = (*home)(nil)
	_ fsys.Renamer = (*home)(nil)
	_ fsys.Remover = (*home)(nil)
)

func (h *home) root(ctx context.Context) (fsys.Node, error) {
	a, err := h.agents.build(ctx, h.name, h.entry)
	if err != nil {
		return nil, err
	}
	return a.Operator(), nil
}

func (h *home) Stat(context.Context) (fsys.Info, error) {
	return fsys.Info{Kind: fsys.Directory, Perm: 0o555, Gen: h.entry.ID}, nil
}

func (h *home) Open(_ context.Context, f fsys.Flag) (fsys.Handle, error) { return fsys.OpenDir(f) }

func (h *home) Walk(ctx context.Context, name string) (fsys.Node, error) {
	root, err := h.root(ctx)
	if err != nil {
		return nil, err
	}
	return fsys.Walk(ctx, root, name)
}

func (h *home) List(ctx context.Context) ([]fsys.Entry, error) {
	root, err := h.root(ctx)
	if err != nil {
		return nil, err
	}
	return fsys.List(ctx, root)
}

func (h *home) Create(ctx context.Context, name string, perm fs.FileMode, flag fsys.Flag) (fsys.Node, fsys.Handle, error) {
	root, err := h.root(ctx)
	if err != nil {
		return nil, nil, err
	}
	return fsys.Create(ctx, root, name, perm, flag)
}

func (h *home) Mkdir(ctx context.Context, name string, perm fs.FileMode) (fsys.Node, error) {
	root, err := h.root(ctx)
	if err != nil {
		return nil, err
	}
	return fsys.Mkdir(ctx, root, name, perm)
}

func (h *home) Rename(ctx context.Context, name, newName string) error {
	root, err := h.root(ctx)
	if err != nil {
		return err
	}
	return fsys.Rename(ctx, root, name, newName)
}

func (h *home) Remove(ctx context.Context) error { return h.agents.remove(ctx, h.name, h.entry) }
