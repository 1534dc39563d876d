package containers

import (
	"context"
	"sync"
	"time"

	"agent9/providers/sandboxes"
	"agent9/services/internal/work"
	"agent9/store"
)

// A session is one request, from submission on.
type session struct {
	work.Item[record]
	s *Service

	// Of a session that has not ended.
	plan   plan
	serves Serve         // who is asked by the programs in it; nil: nobody
	ready  chan struct{} // closed when the sandbox takes commands of exec/new
	touch  chan struct{} // has room for one: the clock must look again
	acts   sync.WaitGroup
	// Set before anything runs in the sandbox.
	secrets secrets

	execs work.Cache[exec]
	sight sight // of the files

	mu       sync.Mutex
	output   *recording // nil: not opened; then it stays
	box      *sandboxes.Box
	used     usage
	running  map[*process]struct{}
	stopping bool      // commands have been asked to end
	up       time.Time // when the sandbox began to run; what has run is measured from it
	lastUse  time.Time // when somebody did something here
	until    time.Time // idle or not, it lives so long
	written  int64     // bytes of execs
}

// newWork returns a session that is nothing yet.
func (s *Service) newWork() *session {
	return &session{
		s:       s,
		serves:  s.config.Serve,
		ready:   make(chan struct{}),
		touch:   make(chan struct{}, 1),
		running: make(map[*process]struct{}),
	}
}

// Open opens the streams.
func (w *session) Open(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.output != nil {
		return nil
	}
	output, err := openRecording(ctx, store.Sub(w.s.st, outputView(w.N)), w.plan.policy.OutputLimit)
	if err != nil {
		return err
	}
	w.output = output
	if r := w.Record(); r.State.ended() {
		output.end()
	}
	return nil
}

func (w *session) lastUsage() usage {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.used
}

// execBytes is how much is kept of what execs wrote.
func (w *session) execBytes() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.written
}

var _ work.Work = (*session)(nil)

func (w *session) ModTime() time.Time {
	r := w.Record()
	return r.modTime()
}

func (w *session) Hide(ctx context.Context, name string) error { return w.s.ledger.Hide(ctx, w, name) }

func (w *session) Remove(ctx context.Context) error {
	err := w.s.ledger.Remove(ctx, w, errStopped)
	w.s.emptyTrash()
	return err
}

// Release lets the readers of w go.
func (w *session) Release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.output != nil {
		w.output.end()
	}
}

// Drop deletes the streams of w and its execs, and throws its sandbox away.
func (w *session) Drop(ctx context.Context, tx store.Store, r *record) error {
	w.mu.Lock()
	output := w.output
	w.mu.Unlock()
	if output != nil {
		if err := output.drop(tx); err != nil {
			return err
		}
	}
	for m := int64(1); m <= r.Execs; m++ {
		if x := w.execs.Known(m); x != nil {
			if err := x.drop(tx); err != nil {
				return err
			}
		}
	}
	for _, part := range []string{outputView(w.N), execsPart(w.N)} {
		if err := store.DeleteAll(ctx, tx, part); err != nil {
			return err
		}
	}
	if r.Sandbox == "" {
		return nil
	}
	return tx.Put(ctx, trashPref+r.Provider+"/"+r.Sandbox, nil)
}

// going reports whether somebody removes the session, file by file.
func (w *session) going() bool { return len(w.Hidden()) > 0 }
