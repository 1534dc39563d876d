package containers

import (
	"context"
	"strconv"
	"strings"
	"time"

	"agent9/fsys"
	"agent9/services/internal/work"
	"agent9/store"
)

// Interrupted reports whether the records in st have sessions that the end of
// the program cut off, which the next Open settles, or that wait for an
// approval, or sandboxes that are still to be removed.
func Interrupted(ctx context.Context, st store.Store) (bool, error) {
	if open, err := work.AnyOpen(ctx, st); open || err != nil {
		return open, err
	}
	page, err := store.Forgiving(st).List(ctx, trashPref, "", 1)
	return len(page) > 0, err
}

// Wanted reports whether the sandbox that a provider has under this name and
// id is that of a session in st, or may be one that is being made.
func Wanted(ctx context.Context, st store.Store, name, id string) (bool, error) {
	_, n, ok := ParseSandboxName(name)
	if !ok {
		return false, nil
	}
	r, err := table.Read(ctx, st, n)
	if missing(err) {
		return false, nil
	}
	return r.Sandbox == id || !r.State.ended() && (r.Sandbox == "" || strings.HasSuffix(name, ofSnapshot) || strings.HasSuffix(name, ofClone)), err
}

// recover ends the sessions that the end of the program cut off, and lets
// those wait on that wait for an approval.
func (s *Service) recover(ctx context.Context) error {
	patience, cancel := context.WithTimeout(ctx, recoverTimeout)
	defer cancel()
	again := func(ctx context.Context, w *session) (err error) {
		w.plan, err = s.planAgain(ctx, w.Record())
		return err
	}
	err := s.ledger.Recover(ctx, again, func(w *session) work.How[record] { return w.interrupted(patience) })
	if err != nil {
		return err
	}
	return s.freeWorkspaces(ctx)
}

// planAgain is the plan that rec was made of, under the policy of now but at
// the old price.
func (s *Service) planAgain(ctx context.Context, rec record) (plan, error) {
	raw, err := s.st.Get(ctx, work.RequestKey(rec.Number))
	if err != nil {
		return plan{}, err
	}
	sub, err := parseSubmission(raw)
	if err != nil {
		return plan{}, err
	}
	p, err := s.policies.Read(ctx, s.st)
	if err != nil {
		return plan{}, err
	}
	sub.req.Provider = rec.Provider
	pl, err := s.plan(ctx, p, sub)
	pl.max, pl.price, pl.image = rec.Held, rec.Price, rec.Image
	return pl, err
}

// recoverTimeout is how long the start waits in all for providers to say how
// long sandboxes ran.
const recoverTimeout = 5 * time.Second

// interrupted is how w ends, which the end of the program cut off.
func (w *session) interrupted(patience context.Context) work.How[record] {
	rec := w.Record()
	ran := w.s.stopped(patience, &rec)
	return func(ctx context.Context, tx store.Store, r *record) (string, error) {
		r.Usage = rec.Usage
		r.end(w.s.config.Now(), ran, errInterrupted)
		r.Size += w.output.stored()
		return errInterrupted.Error(), interruptExecs(ctx, tx, *r)
	}
}

// stopped makes sure that the sandbox of r does not run, and returns how long
// it did: what the provider says, as far as the clock allows it, and no less
// than was written down.
func (s *Service) stopped(ctx context.Context, r *record) time.Duration {
	marked := r.Mark.Sub(r.Up)
	runner := s.config.Providers.Get(r.Provider)
	if r.Sandbox == "" || runner == nil {
		return marked
	}
	box, err := runner.Open(ctx, r.Sandbox, s.owns)
	if err != nil {
		return marked
	}
	box.Stop(ctx) // the box ended with the daemon; this is for one that cannot
	u, err := box.Usage(ctx)
	if err != nil || u.Wall <= 0 {
		return marked
	}
	r.Usage = usageOf(u)
	return max(marked, min(u.Wall, s.config.Now().Sub(r.Up)))
}

// interruptExecs ends the execs of r that ran.
func interruptExecs(ctx context.Context, tx store.Store, r record) error {
	for p, err := range store.All(ctx, store.Forgiving(tx), execsPart(r.Number)+work.RecPrefix) {
		if err != nil {
			return err
		}
		x, err := store.GetJSON[execRecord](ctx, store.Forgiving(tx), p.Key)
		if err != nil && !store.IsDamaged(err) {
			return err
		}
		if err != nil || x.ended() {
			continue
		}
		x.State, x.Ended = execStopped, r.Ended
		x.Outcome = &outcome{Command: x.Command.String(), ExitCode: 1, Error: work.FailureOf(errInterrupted)}
		if err := store.PutJSON(ctx, tx, p.Key, x); err != nil {
			return err
		}
	}
	return nil
}

// Purge removes all sandboxes and workspaces of an agent that is about to be
// removed, whose sessions have ended.
func (s *Service) Purge(ctx context.Context) error {
	s.closeFiles()
	if err := s.Wait(ctx); err != nil {
		return err
	}
	for p, err := range store.All(ctx, store.Forgiving(s.st), work.ListPrefix) {
		if err != nil {
			return err
		}
		n, err := strconv.ParseInt(p.Key[len(work.ListPrefix):], 10, 64)
		if err != nil {
			return fsys.E(fsys.Internal, "the database has a session that is called "+p.Key)
		}
		r, err := table.Read(ctx, s.st, n)
		if store.IsDamaged(err) || missing(err) {
			continue // the next start removes the sandbox, which is then nobody's
		}
		if err != nil {
			return err
		}
		if runner := s.config.Providers.Get(r.Provider); runner != nil && r.Sandbox != "" {
			if err := s.removeSandbox(ctx, runner, r.Sandbox); err != nil {
				return fsys.Wrap(fsys.Unavailable, "the sandbox of session "+text(n), err)
			}
		}
	}
	list, err := workspaces{s}.List(ctx)
	for _, e := range list {
		if err == nil {
			err = fsys.Wrap(fsys.Unavailable, "the workspace "+e.Name, fsys.Remove(ctx, e.Node))
		}
	}
	return err
}
