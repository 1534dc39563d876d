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
	expires  time.Time // zero until endAt, or if it never does
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

// leave ends the session.
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
		delete(l.tokens, s.hash)
	}
}

// endAt notes when the token expires; the zero time is never.
func (l *live) endAt(hash string, t time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w := l.tokens[hash]; w != nil {
		w.expires = t
	}
}

// endExpired ends the sessions of tokens that have expired by now.
func (l *live) endExpired(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for hash, w := range l.tokens {
		if !w.expires.IsZero() && !now.Before(w.expires) {
			l.cut(hash, w)
		}
	}
}

// end ends the sessions of the token.
func (l *live) end(hash string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w := l.tokens[hash]; w != nil {
		l.cut(hash, w)
	}
}

// cut ends the sessions of w. It is called with mu held.
func (l *live) cut(hash string, w *watch) {
	for s := range w.sessions {
		s.cancel()
	}
	delete(l.tokens, hash)
}
