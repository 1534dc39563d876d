package host

import (
	"context"
	"encoding/json"
	"io/fs"
	"log/slog"
	"strings"
	"sync"
	"time"

	"agent9/fsys"
	"agent9/namespace/budget"
	"agent9/store"
)

// The parts of the daemon's store that accounts have, besides data and trash.
const (
	accountsPart = "accounts/" // name → entry
	underPart    = "under/"    // account/child → nothing; a child is agents/NAME or accounts/NAME
)

// accounts is the directory of the accounts above those of agents: teams,
// organisations. There are few, so all of them are in memory.
type accounts struct {
	st       store.Updater
	now      func() time.Time
	happened func(name, event string)

	mu   sync.Mutex
	open map[uint64]*budget.Account // by id; one that is being made is there early
}

func openAccounts(ctx context.Context, st store.Updater, now func() time.Time, happened func(name, event string)) (*accounts, error) {
	s := &accounts{st: st, now: now, happened: happened, open: make(map[uint64]*budget.Account)}
	list, err := s.List(ctx)
	if err != nil {
		return nil, err
	}
	for _, e := range list {
		err := s.load(ctx, e.Name, e.Node.(*purse).entry)
		if store.IsDamaged(err) { // nothing is spent below it
			slog.Error("an account cannot be opened, as what there is of it is damaged", "account", e.Name, "err", err)
			continue
		}
		if err != nil {
			return nil, err
		}
	}
	return s, nil
}

// load opens the account of an entry.
func (s *accounts) load(ctx context.Context, name string, e entry) error {
	a, err := budget.Open(ctx, store.Sub(s.st, e.part()), budget.Options{
		Name: name, Now: s.now, Parent: s.find,
		Moved: func(ctx context.Context, tx store.Store, from, to string) error {
			return s.moved(ctx, tx, accountsPart+name, from, to)
		},
	})
	if err != nil {
		return fsys.Wrap(fsys.Internal, "account "+name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[e.ID] = a
	return nil
}

// drop forgets an account, and ends what is read there.
func (s *accounts) drop(id uint64) {
	s.mu.Lock()
	a := s.open[id]
	delete(s.open, id)
	s.mu.Unlock()
	if a != nil {
		a.End()
	}
}

// loaded returns the account with this id, or NotExist.
func (s *accounts) loaded(id uint64) (*budget.Account, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.open[id]; a != nil {
		return a, nil
	}
	return nil, fsys.NotExist
}

func (s *accounts) entry(ctx context.Context, st store.Store, name string) (entry, error) {
	return store.GetJSON[entry](ctx, st, accountsPart+name)
}

// in returns what tx sees of the store; tx may be nil.
func (s *accounts) in(tx store.Store) store.Store {
	if tx == nil {
		return s.st
	}
	return store.In(tx, s.st)
}

// find is budget.Options.Parent.
func (s *accounts) find(ctx context.Context, tx store.Store, name string) (*budget.Account, error) {
	e, err := s.entry(ctx, s.in(tx), name)
	if err != nil && fsys.CodeOf(err) == fsys.NotExist {
		return nil, fsys.E(fsys.NotExist, "it does not exist; mkdir accounts/"+name+" makes it")
	}
	if err != nil {
		return nil, err
	}
	return s.loaded(e.ID)
}

// moved is budget.Options.Moved of child: it keeps the index of who is below
// whom.
func (s *accounts) moved(ctx context.Context, tx store.Store, child, from, to string) error {
	in := s.in(tx)
	if from != "" {
		if err := in.Delete(ctx, underPart+from+"/"+child); err != nil {
			return err
		}
	}
	if to == "" {
		return nil
	}
	return in.Put(ctx, underPart+to+"/"+child, nil)
}

// settleBelow returns what settles what the agent called name holds of accounts,
// and takes it from below them.
func (s *accounts) settleBelow(ctx context.Context, name string) (settle func(tx store.Store) error, err error) {
	list, err := s.List(ctx)
	if err != nil {
		return nil, err
	}
	// An account of the same name has holds of its own there.
	others := map[string]map[string]string{}
	if e, err := s.entry(ctx, s.st, name); err == nil {
		if others, err = budget.Above(ctx, store.Sub(s.st, e.part()), name); err != nil {
			return nil, err
		}
	}
	var settles []func(tx store.Store) error
	for _, e := range list {
		a, err := s.loaded(e.Node.(*purse).entry.ID)
		if err != nil {
			continue // it could not be opened
		}
		settle, err := a.SettleBelow(ctx, name, others[e.Name], "the agent was removed, and was damaged")
		if err != nil {
			return nil, err
		}
		settles = append(settles, settle)
	}
	return func(tx store.Store) error {
		for _, e := range list {
			if err := s.in(tx).Delete(ctx, underPart+e.Name+"/"+agentsPart+name); err != nil {
				return err
			}
		}
		for _, settle := range settles {
			if err := settle(tx); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

func (s *accounts) Walk(ctx context.Context, name string) (fsys.Node, error) {
	if fsys.CheckName(name) != nil {
		return nil, fsys.NotExist
	}
	e, err := s.entry(ctx, s.st, name)
	if err != nil {
		return nil, err
	}
	return &purse{s, name, e}, nil
}

func (s *accounts) List(ctx context.Context) ([]fsys.Entry, error) {
	var list []fsys.Entry
	for pair, err := range store.All(ctx, store.Forgiving(s.st), accountsPart) {
		if err != nil {
			return nil, err
		}
		var e entry // of no account, if it is damaged
		if err := json.Unmarshal(pair.Value, &e); err != nil && pair.Value != nil {
			return nil, fsys.Wrap(fsys.Internal, "the index entry "+pair.Key, err)
		}
		name := strings.TrimPrefix(pair.Key, accountsPart)
		list = append(list, fsys.Entry{Name: name, Node: &purse{s, name, e}})
	}
	return list, nil
}

func (s *accounts) Mkdir(ctx context.Context, name string, _ fs.FileMode) (fsys.Node, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	var e entry
	err := s.st.Update(ctx, func(tx store.Store) (err error) {
		if err := s.vacant(ctx, tx, name); err != nil {
			return err
		}
		e.ID, err = nextID(ctx, tx)
		return err
	})
	if err != nil {
		return nil, err
	}
	// Before it can be found: transactions must not open anything.
	if err := s.load(ctx, name, e); err != nil {
		return nil, err
	}
	err = s.st.Update(ctx, func(tx store.Store) error {
		if err := s.vacant(ctx, tx, name); err != nil {
			return err
		}
		return store.PutJSON(ctx, tx, accountsPart+name, e)
	})
	if err != nil {
		s.drop(e.ID)
		return nil, err
	}
	s.happened(name, "account.created")
	return &purse{s, name, e}, nil
}

// vacant reports that there is an account called name, if so.
func (s *accounts) vacant(ctx context.Context, tx store.Store, name string) error {
	_, err := s.entry(ctx, tx, name)
	switch {
	case err == nil:
		return fsys.Exist
	case fsys.CodeOf(err) == fsys.NotExist:
		return nil
	}
	return err
}

func (s *accounts) remove(ctx context.Context, name string, e entry) error {
	err := s.st.Update(ctx, func(tx store.Store) error {
		switch now, err := s.entry(ctx, tx, name); {
		case err != nil:
			return err
		case now != e:
			return fsys.NotExist
		}
		children, err := tx.List(ctx, underPart+name+"/", "", 1)
		if err != nil {
			return err
		}
		if len(children) > 0 {
			child := strings.TrimPrefix(children[0].Key, underPart+name+"/")
			return fsys.E(fsys.Busy, child+" has this account above it; write other limits there first")
		}
		a, err := s.loaded(e.ID)
		if err != nil {
			return err
		}
		if err := a.Close(ctx, tx); err != nil {
			return err
		}
		store.After(tx, func() { s.drop(e.ID) })
		if err := tx.Put(ctx, e.trash(), []byte(name)); err != nil {
			return err
		}
		return tx.Delete(ctx, accountsPart+name)
	})
	if err != nil {
		return err
	}
	s.happened(name, "account.removed")
	if err := empty(context.WithoutCancel(ctx), s.st, e.text()); err != nil {
		slog.Warn("the data of a removed account is left for the next start", "account", name, "err", err)
	}
	return nil
}
