package containers

import (
	"context"
	"slices"
	"sync"
	"time"

	"agent9/fsys"
	"agent9/namespace/budget"
	"agent9/providers/sandboxes"
	"agent9/services/internal/work"
	"agent9/store"
)

// A session is one request, from submission on. While it has not ended the
// service keeps it; afterwards it is in memory as long as somebody looks at it,
// so that there is one of a number at any time.
type session struct {
	s *Service
	n int64

	// Of a session that has not ended.
	ctx    context.Context
	cancel context.CancelCauseFunc
	plan   plan
	serves Serve         // who is asked by the programs in it; nil: nobody
	ready  chan struct{} // closed when the sandbox takes commands of exec/new
	touch  chan struct{} // has room for one: the clock must look again
	acts   sync.WaitGroup
	// Set before anything runs in the sandbox.
	secrets secrets

	done  chan struct{} // closed when it has ended
	execs work.Cache[exec]
	sight sight // of the files

	mu       sync.Mutex
	rec      record
	output   *recording // nil: not opened; then it stays
	gone     bool
	holds    []*budget.Hold
	box      *sandboxes.Box
	used     usage
	running  map[*process]struct{}
	stopping bool      // commands have been asked to end
	up       time.Time // when the sandbox began to run; what has run is measured from it
	lastUse  time.Time // when somebody did something here
	until    time.Time // idle or not, it lives so long
	written  int64     // bytes of execs
}

// liveSession returns session n, which has not ended.
func (s *Service) liveSession(n int64) *session {
	w := &session{
		s: s, n: n,
		serves:  s.config.Serve,
		ready:   make(chan struct{}),
		touch:   make(chan struct{}, 1),
		done:    make(chan struct{}),
		running: make(map[*process]struct{}),
	}
	w.ctx, w.cancel = context.WithCancelCause(s.life)
	return w
}

// session returns session n, or NotExist.
func (s *Service) session(ctx context.Context, n int64) (*session, error) {
	w, err := s.sessions.Get(ctx, n, func() (*session, bool, error) {
		rec, err := store.GetJSON[record](ctx, s.st, recordKey(n))
		w := &session{s: s, n: n, rec: rec, done: make(chan struct{})}
		close(w.done)
		return w, rec.State.ended(), err
	})
	if err != nil {
		return nil, err
	}
	return w, w.Present()
}

// open opens the streams.
func (w *session) open(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.output != nil {
		return nil
	}
	output, err := openRecording(ctx, store.Sub(w.s.st, outputView(w.n)), w.plan.policy.OutputLimit)
	if err != nil {
		return err
	}
	w.output = output
	if w.rec.State.ended() {
		output.end()
	}
	return nil
}

func (w *session) record() record {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rec
}

func (w *session) lastUsage() usage {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.used
}

func (w *session) allHolds() []*budget.Hold {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.holds)
}

// execBytes is how much is kept of what execs wrote.
func (w *session) execBytes() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.written
}

var _ work.Work = (*session)(nil)

func (w *session) Present() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gone || w.rec.Removing {
		return fsys.NotExist
	}
	return nil
}

func (w *session) Hidden() []string { return w.record().Hidden }

func (w *session) ModTime() time.Time {
	r := w.record()
	return r.modTime()
}

func (w *session) Hide(ctx context.Context, name string) error { return w.s.hide(ctx, w, name) }

func (w *session) Remove(ctx context.Context) error { return w.s.remove(ctx, w) }

// going reports whether somebody removes the session, file by file.
func (w *session) going() bool { return len(w.Hidden()) > 0 }
