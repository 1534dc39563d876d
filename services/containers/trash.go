package containers

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"agent9/fsys"
	"agent9/providers/sandboxes"
	"agent9/store"
)

// removeTimeout is how long a provider may take to stop or remove a sandbox.
const removeTimeout = time.Minute

// A provider that could not remove a sandbox is asked again after soonest, and
// then each time after twice as long, up to latest.
const (
	soonest = time.Second
	latest  = 10 * time.Minute
)

// emptyTrash removes the sandboxes that were thrown away, behind who calls.
// What a provider cannot remove now is tried again later, also by another run
// of the program.
func (s *Service) emptyTrash() {
	ctx := context.WithoutCancel(s.life)
	if page, err := store.Forgiving(s.st).List(ctx, trashPref, "", 1); err == nil && len(page) == 0 {
		return
	}
	s.mu.Lock()
	s.again = true
	busy := s.sweeping
	s.sweeping = true
	s.mu.Unlock()
	if busy {
		return
	}
	s.ledger.Crew.Behind(func() {
		left := false
		for s.takeAgain() {
			left = s.emptyOnce(ctx)
		}
		s.emptyLater(left)
	})
}

// emptyLater calls emptyTrash again after a while, if there is something left
// and the service is still there.
func (s *Service) emptyLater(left bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !left {
		s.pause = 0
		return
	}
	s.pause = min(max(2*s.pause, soonest), latest)
	if s.retry != nil {
		s.retry.Stop()
	}
	s.retry = time.AfterFunc(s.pause, func() {
		if s.life.Err() == nil {
			s.emptyTrash()
		}
	})
}

// takeAgain reports whether the trash is to be looked at again.
func (s *Service) takeAgain() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	again := s.again
	s.again, s.sweeping = false, again
	return again
}

// emptyOnce tries each sandbox in the trash, and reports whether any is left.
func (s *Service) emptyOnce(ctx context.Context) (left bool) {
	for p, err := range store.All(ctx, store.Forgiving(s.st), trashPref) {
		if err != nil {
			slog.Warn("sandboxes that were removed are left for later", "agent", s.config.Agent, "err", err)
			return true
		}
		id, sandbox, _ := strings.Cut(p.Key[len(trashPref):], "/")
		if r := s.config.Providers.Get(id); r != nil {
			if err := s.removeSandbox(ctx, r, sandbox); err != nil {
				slog.Warn("a sandbox that was removed is left for later", "agent", s.config.Agent, "provider", id, "err", err)
				left = true
				continue
			}
		}
		if err := s.st.Delete(ctx, p.Key); err != nil {
			slog.Warn("the record of a sandbox that was removed is left for later", "agent", s.config.Agent, "err", err)
			left = true
		}
	}
	return left
}

func (s *Service) removeSandbox(ctx context.Context, r *sandboxes.Runner, id string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, removeTimeout, fsys.E(fsys.Timeout, "the provider "+r.ID()+" does not answer"))
	defer cancel()
	box, err := r.Open(ctx, id, s.owns)
	if err == nil {
		err = box.Remove(ctx)
	}
	if missing(err) {
		return nil
	}
	return err
}
