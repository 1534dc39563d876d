//go:build unix

package folder

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"agent9/fsys"
	"agent9/providers/sandboxes"
)

// A Sandbox is one of a Store's; see [sandboxes.Sandbox].
type Sandbox struct {
	store *Store
	id    string
	dir   string
	load  sync.Once
	// broken says why there is no such sandbox. Set by load.
	broken error
	// turn is held while the sandbox is started, stopped or removed.
	turn fsys.Mutex

	mu      sync.Mutex
	record  record
	run     *run // nil: none goes on
	removed bool
}

var _ sandboxes.Sandbox = (*Sandbox)(nil)

func newSandbox(s *Store, id string) *Sandbox {
	return &Sandbox{store: s, id: id, dir: filepath.Join(s.sandboxes(), id)}
}

// recover loads the record and ends the run that it says goes on, or was about
// to: the daemon which had started that is gone.
func (s *Sandbox) recover() {
	rec, err := loadRecord(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		err = noSandbox
	}
	s.record, s.broken = rec, err
	if err != nil || rec.Run == nil {
		return
	}
	place, err := s.place(context.Background())
	if err != nil {
		s.broken = err
		return
	}
	s.record.Used = add(rec.Used, s.store.engine.Recover(place, *rec.Run))
	s.record.Run = nil
	s.broken = s.record.save(s.dir)
}

func (s *Sandbox) place(ctx context.Context) (Place, error) {
	owner, err := s.store.owner(ctx, s.record.Agent)
	p := Place{ID: s.id, Image: s.record.Image, Limits: s.record.Limits, Owner: owner}.in(s.dir)
	if err == nil && s.record.Workspace != "" {
		p.Workspace, err = s.store.workspace(s.record.Workspace)
	}
	return p, err
}

func (s *Sandbox) ID() string { return s.id }

// Name says whose it is; see [sandboxes.Sandbox].
func (s *Sandbox) Name(context.Context) (string, error) { return s.name(), nil }

func (s *Sandbox) name() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.record.Name
}

func (s *Sandbox) running() bool { return s.current() != nil }

func (s *Sandbox) current() *run {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.run
}

// Start runs the box; see [sandboxes.Sandbox]. One that runs is Busy.
func (s *Sandbox) Start(ctx context.Context) (net.Conn, error) {
	if err := s.turn.Lock(ctx); err != nil {
		return nil, err
	}
	defer s.turn.Unlock()
	if err := s.idle(); err != nil {
		return nil, err
	}
	place, err := s.place(ctx)
	if err != nil {
		return nil, err
	}
	if err := os.Mkdir(place.Work, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fsys.Wrap(fsys.Internal, "the sandbox's folder", err)
	}
	var lock *os.File
	if s.record.Workspace != "" {
		if lock, err = s.store.lock(ctx, place); err != nil {
			return nil, err
		}
	}
	// What Begin makes is found again after a crash because this is on record.
	if err := s.note(&Process{}); err != nil {
		lock.Close()
		return nil, err
	}
	made, err := s.store.engine.Begin(ctx, place)
	if err != nil {
		lock.Close()
		return nil, errors.Join(err, s.note(nil))
	}
	r := &run{Run: made, lock: lock, grace: s.store.config.Grace, ended: make(chan struct{})}
	conn, err := r.start(s)
	if err != nil {
		made.Close()
		lock.Close()
		return nil, errors.Join(err, s.note(nil))
	}
	return conn, nil
}

// note records what goes on, or is about to; nil: nothing.
func (s *Sandbox) note(p *Process) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.record.Run = p
	return s.record.save(s.dir)
}

// idle reports why the sandbox cannot be started.
func (s *Sandbox) idle() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.removed:
		return noSandbox
	case s.run != nil:
		return fsys.E(fsys.Busy, "the sandbox is already running")
	}
	return nil
}

// began notes that r goes on.
func (s *Sandbox) began(r *run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.run = r
	s.record.Run = &r.process
	// Without the record, only what a daemon that is killed leaves is not known.
	s.record.save(s.dir)
}

// ended notes that no process of r is left.
func (s *Sandbox) ended(r *run) {
	s.mu.Lock()
	used := r.Usage(r.cmd.ProcessState)
	used.Wall = time.Since(r.began)
	s.record.Used = add(s.record.Used, used)
	s.record.Run = nil
	s.mu.Unlock()
	r.Close()
	r.lock.Close()
	s.mu.Lock()
	if !s.removed {
		s.record.save(s.dir) // after what Close removes is removed
	}
	s.run = nil // only now: who finds no run may begin the next
	s.mu.Unlock()
}

// Stop ends the run; see [sandboxes.Sandbox].
func (s *Sandbox) Stop(ctx context.Context) error {
	if err := s.turn.Lock(ctx); err != nil {
		return err
	}
	defer s.turn.Unlock()
	return s.stop(ctx)
}

func (s *Sandbox) stop(ctx context.Context) error {
	r := s.current()
	if r == nil {
		return nil
	}
	r.end()
	select {
	case <-r.ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Remove ends the sandbox; see [sandboxes.Sandbox].
func (s *Sandbox) Remove(ctx context.Context) error {
	if err := s.turn.Lock(ctx); err != nil {
		return err
	}
	defer s.turn.Unlock()
	if err := s.stop(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	gone := s.removed
	s.removed = true
	s.mu.Unlock()
	if gone {
		return nil
	}
	if err := s.store.discard(s.dir); err != nil {
		s.mu.Lock()
		s.removed = false
		s.mu.Unlock()
		return err
	}
	s.store.forget(s.id)
	return nil
}

// Usage is what all runs so far used; see [sandboxes.Sandbox].
func (s *Sandbox) Usage(context.Context) (sandboxes.Usage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run == nil || s.record.Run == nil { // which is noted first
		return s.record.Used, nil
	}
	now := s.run.Usage(nil)
	now.Wall = time.Since(s.run.began)
	return add(s.record.Used, now), nil
}
