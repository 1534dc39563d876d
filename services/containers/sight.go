package containers

import (
	"context"
	"log/slog"
	"time"

	"agent9/fsys"
	"agent9/providers/sandboxes"
)

// unseen is how long the sandbox of a session that has ended goes on running
// when nobody looks at its files.
const unseen = 10 * time.Second

// startAgainTimeout is how long a sandbox may take to run for its files: others
// who look wait meanwhile.
const startAgainTimeout = time.Minute

// sight is the sandbox of a session as its files are looked at: the one that
// runs, or, when the session has ended, one that is made to run for that.
type sight struct {
	turn fsys.Mutex // held by who changes what is below
	box  *sandboxes.Box
	gen  uint64 // counts runs
	root fsys.Node
	here int // who looks
	last *time.Timer
}

// look returns the root of the files of w, a number that tells this run of the
// sandbox apart from others, and what to call when done.
func (w *session) look(ctx context.Context) (root fsys.Node, gen uint64, done func(), err error) {
	if err := w.Present(); err != nil {
		return nil, 0, nil, err
	}
	w.mu.Lock()
	box := w.box
	w.mu.Unlock()
	state := w.Record().State
	switch {
	case box != nil && !state.ended():
		w.use()
		root, err = box.Files(ctx)
		return root, 0, func() {}, err
	case !state.ended():
		return nil, 0, nil, errNotReady
	}
	return w.lookAgain(ctx)
}

// lookAgain is look for a session that has ended.
func (w *session) lookAgain(ctx context.Context) (fsys.Node, uint64, func(), error) {
	if err := w.sight.turn.Lock(ctx); err != nil {
		return nil, 0, nil, err
	}
	defer w.sight.turn.Unlock()
	v := &w.sight
	if v.box == nil || !v.box.Running() {
		if err := w.startAgain(ctx); err != nil {
			return nil, 0, nil, err
		}
	}
	v.here++
	if v.last != nil {
		v.last.Stop()
		v.last = nil
	}
	return v.root, v.gen, w.lookedAt, nil
}

// startAgain makes the sandbox of w, which has ended, run for its files.
func (w *session) startAgain(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startAgainTimeout, fsys.E(fsys.Timeout, "the sandbox does not start"))
	defer cancel()
	r := w.Record()
	runner := w.s.config.Providers.Get(r.Provider)
	switch {
	case r.Sandbox == "":
		return fsys.E(fsys.NotExist, "the session has no files: it ended before its sandbox was made, or it ran on another daemon")
	case runner == nil:
		return fsys.E(fsys.Unavailable, w.s.config.Providers.None(r.Provider))
	case w.s.life.Err() != nil:
		return fsys.E(fsys.Unavailable, "the daemon is shutting down")
	}
	if err := w.s.workspaceFree(ctx, r); err != nil {
		return err
	}
	box, err := runner.Open(ctx, r.Sandbox, w.s.owns)
	if missing(err) {
		return fsys.E(fsys.Unavailable, "the sandbox of the session is not there any more")
	}
	if err != nil {
		return err
	}
	if err := box.Start(ctx); err != nil {
		return err
	}
	root, err := box.Files(ctx)
	if err != nil {
		box.Stop(context.WithoutCancel(ctx))
		return err
	}
	v := &w.sight
	v.box, v.root = box, root
	v.gen++
	w.s.mu.Lock()
	w.s.open[w] = struct{}{}
	w.s.mu.Unlock()
	return nil
}

// shown reports whether the sandbox of w, which has ended, runs for its files.
func (w *session) shown(ctx context.Context) bool {
	if err := w.sight.turn.Lock(ctx); err != nil {
		return false
	}
	defer w.sight.turn.Unlock()
	return w.sight.box != nil && w.sight.box.Running()
}

// lookedAt says that somebody does not look any more. The timer that it may
// start is all that keeps the sandbox running then.
func (w *session) lookedAt() {
	w.s.ledger.Crew.Behind(func() {
		w.sight.turn.Lock(context.WithoutCancel(w.s.life))
		defer w.sight.turn.Unlock()
		if w.sight.here--; w.sight.here == 0 {
			w.sight.last = time.AfterFunc(unseen, func() { w.s.ledger.Crew.Behind(w.closeUnseen) })
		}
	})
}

// closeUnseen stops the sandbox of w if nobody looks at its files.
func (w *session) closeUnseen() { w.closeSight(false) }

// closeSight stops the sandbox that runs for the files of w; if anyway is
// false, only if nobody looks at them.
func (w *session) closeSight(anyway bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.s.life), removeTimeout)
	defer cancel()
	if err := w.sight.turn.Lock(ctx); err != nil {
		return
	}
	defer w.sight.turn.Unlock()
	v := &w.sight
	if v.box == nil || v.here > 0 && !anyway {
		return
	}
	if err := v.box.Stop(ctx); err != nil {
		slog.Warn("a sandbox was not stopped", "agent", w.s.config.Agent, "session", w.N, "err", err)
	}
	if v.last != nil {
		v.last.Stop()
		v.last = nil
	}
	v.box, v.root = nil, nil
	w.s.mu.Lock()
	delete(w.s.open, w)
	w.s.mu.Unlock()
}

// closeFiles stops every sandbox that runs only for its files.
func (s *Service) closeFiles() {
	s.mu.Lock()
	var open []*session
	for w := range s.open {
		open = append(open, w)
	}
	s.mu.Unlock()
	for _, w := range open {
		s.ledger.Crew.Behind(func() { w.closeSight(true) })
	}
}
