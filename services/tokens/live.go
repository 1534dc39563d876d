package tokens

import (
	"context"
	"sync"
	"time"
)

// live are the sessions that tokens have opened. The zero value has none.
type live struct {
	mu     sync.Mutex
	tokens map[string]*watch // by hash; only those that have sessions
}

// watch is one token with sessions.
type watch struct {
	sessions map[*session]struct{}
	timer    *time.Timer // at its expiry; nil until endAt
}

// session is open while its ctx is.
type session struct {
	live   *live
	hash   string
	ctx    context.Context
	cancel context.CancelFunc
}

// watch begins a session of the token, which ends with ctx at the latest.
func (l *live) watch(ctx context.Context, hash string) *session {
	s := &session{live: l, hash: hash}
	s.ctx, s.cancel = context.WithCancel(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.tokens[hash]
	if w == nil {
		w = &watch{sessions: map[*session]struct{}{}}
		if l.tokens == nil {
			l.tokens = map[string]*watch{}
		}
		l.tokens[hash] = w
	}
	w.sessions[s] = struct{}{}
	context.AfterFunc(s.ctx, s.leave)
	return s
}

// leave ends the session. The last one stops the timer.
func (s *session) leave() {
	s.cancel()
	l := s.live
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.tokens[s.hash]
	if w == nil {
		return
	}
	delete(w.sessions, s)
	if len(w.sessions) == 0 {
		l.drop(s.hash, w)
	}
}

// endAt ends the sessions of the token at t, if it still has any.
func (l *live) endAt(hash string, t time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w := l.tokens[hash]; w != nil && w.timer == nil {
		w.timer = time.AfterFunc(time.Until(t), func() { l.end(hash) })
	}
}

// end ends the sessions of the token.
func (l *live) end(hash string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.tokens[hash]
	if w == nil {
		return
	}
	for s := range w.sessions {
		s.cancel()
	}
	l.drop(hash, w)
}

// drop is called with mu held.
func (l *live) drop(hash string, w *watch) {
	if w.timer != nil {
		w.timer.Stop()
	}
	delete(l.tokens, hash)
}
