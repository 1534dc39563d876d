package host

import (
	"context"
	"errors"
	"log/slog"

	"agent9/fsys"
	"agent9/services/agent"
	"agent9/services/ticks"
	"agent9/store"
)

// stage makes an agent in two steps, so that it is whole when others first see
// it: fill writes what it has into e's part, in as many transactions as it likes, and returns
// the account that is to be above its own. A crash in between leaves nothing
// behind the next start.
func (s *agents) stage(ctx context.Context, name string, fill func(e entry) (parent string, err error)) (e entry, err error) {
	if err := checkName(name); err != nil {
		return e, err
	}
	err = s.st.Update(ctx, func(tx store.Store) (err error) {
		if err := s.vacant(ctx, tx, name); err != nil {
			return err
		}
		if e.ID, err = nextID(ctx, tx); err != nil {
			return err
		}
		return tx.Put(ctx, e.trash(), []byte(name))
	})
	if err != nil {
		return e, err
	}
	defer func() {
		if err != nil {
			s.discard(context.WithoutCancel(ctx), name, e)
		}
	}()
	parent, err := fill(e)
	if err != nil {
		return e, err
	}
	return e, s.st.Update(ctx, func(tx store.Store) error {
		if err := s.vacant(ctx, tx, name); err != nil {
			return err
		}
		if err := s.below(ctx, tx, name, parent); err != nil {
			return err
		}
		if err := tx.Delete(ctx, e.trash()); err != nil {
			return err
		}
		// Whatever it has to do is found out when it is built.
		if err := s.house.Due(ctx, tx, name, ticks.Due{Ready: true}); err != nil {
			return err
		}
		return store.PutJSON(ctx, tx, agentsPart+name, e)
	})
}

// below puts an agent below the account that its limits name.
func (s *agents) below(ctx context.Context, tx store.Store, name, parent string) error {
	if parent == "" {
		return nil
	}
	if _, err := s.house.Account(ctx, tx, parent); err != nil {
		return fsys.Wrap(fsys.NotExist, "the account "+parent+" that the agent has above its own", err)
	}
	return s.house.Moved(ctx, tx, name, "", parent)
}

// discard takes away what was staged.
func (s *agents) discard(ctx context.Context, name string, e entry) {
	err := empty(ctx, s.st, e.text())
	if err == nil {
		err = s.st.Delete(ctx, e.trash())
	}
	if err != nil {
		slog.Warn("the data of an agent that was not made is left for the next start", "agent", name, "err", err)
	}
}

// vacant reports that there is an agent called name, if so.
func (s *agents) vacant(ctx context.Context, tx store.Store, name string) error {
	_, err := s.entry(ctx, tx, name)
	switch {
	case err == nil:
		return fsys.Exist
	case fsys.CodeOf(err) == fsys.NotExist:
		return nil
	}
	return err
}

// undo takes away an agent that was published and cannot be built.
func (s *agents) undo(ctx context.Context, name string, e entry, parent string) error {
	err := s.st.Update(ctx, func(tx store.Store) error {
		if parent != "" {
			if err := s.house.Moved(ctx, tx, name, parent, ""); err != nil {
				return err
			}
		}
		if err := tx.Put(ctx, e.trash(), []byte(name)); err != nil {
			return err
		}
		return tx.Delete(ctx, agentsPart+name)
	})
	if err == nil {
		s.discard(ctx, name, e)
	}
	return err
}

// restore makes the agent of a bundle, and settles what it was doing.
func (s *agents) restore(ctx context.Context, name string, fill func(e entry) (parent string, err error)) (*agent.Agent, error) {
	parent := ""
	e, err := s.stage(ctx, name, func(e entry) (_ string, err error) {
		parent, err = fill(e)
		return parent, err
	})
	if err != nil {
		return nil, err
	}
	a, err := s.build(ctx, name, e)
	if err != nil {
		err = fsys.Wrap(fsys.Invalid, "no agent could be made of what is in the bundle", err)
		return nil, errors.Join(err, s.undo(context.WithoutCancel(ctx), name, e, parent))
	}
	return a, nil
}
