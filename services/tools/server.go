package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"agent9/fsys"
	provider "agent9/providers/tools"
)

// A server is one configured server, whether it runs or not.
type server struct {
	s      *Service
	name   string
	raw    json.RawMessage // the configuration that it is of
	config Server
	turn   fsys.Mutex // held by who starts or ends it

	mu       sync.Mutex
	over     bool // it is configured otherwise now, or not at all
	session  provider.Session
	since    time.Time
	users    int
	calls    int
	idle     *time.Timer // runs while there are no users
	failures int         // since a call succeeded
	failed   error       // the last of them
	until    time.Time   // when it may be started again
}

// How long a server that failed is left alone.
const (
	firstDelay = time.Second
	mostDelay  = time.Minute
)

// use returns the session of the server, which is started if need be, and what
// is called when it is used no longer.
func (x *server) use(ctx context.Context) (provider.Session, func(), error) {
	if err := x.turn.Lock(ctx); err != nil {
		return nil, nil, err
	}
	defer x.turn.Unlock()
	if session, ok, err := x.running(); ok || err != nil {
		return session, x.release, err
	}
	began := x.s.opts.Now()
	session, n, err := x.start(ctx)
	if err != nil {
		if ctx.Err() == nil {
			x.fail(ctx, err)
		}
		return nil, nil, err
	}
	if !x.take(session) {
		session.Close(x.s.life)
		return nil, nil, fsys.NotExist
	}
	x.s.note(ctx, "tool.started", started{x.name, n, x.s.opts.Now().Sub(began).Milliseconds()})
	return session, x.release, nil
}

// take begins to use a session that has just begun, and to watch it, unless
// the server is needed no longer.
func (x *server) take(session provider.Session) bool {
	x.s.mu.Lock()
	defer x.s.mu.Unlock()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.over || x.s.ended {
		return false
	}
	x.session, x.since = session, x.s.opts.Now()
	x.users++
	x.s.running.Go(func() { x.watch(session) })
	return true
}

// watch waits for the end of a session.
func (x *server) watch(session provider.Session) {
	select {
	case <-session.Done():
		x.crashed(session)
	case <-x.s.life.Done():
		session.Close(x.s.life)
	}
}

type started struct {
	Server string `json:"server"`
	Tools  int    `json:"tools"`
	Ms     int64  `json:"ms"`
}

// running returns the session if there is one, which is then used, or why
// there will not be one now.
func (x *server) running() (provider.Session, bool, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.over {
		return nil, false, fsys.NotExist
	}
	if x.session != nil {
		select {
		case <-x.session.Done():
		default:
			x.users++
			if x.idle != nil {
				x.idle.Stop()
			}
			return x.session, true, nil
		}
		x.lost(x.session)
	}
	if left := x.until.Sub(x.s.opts.Now()); left > 0 {
		return nil, false, fsys.E(fsys.CodeOf(x.failed), fmt.Sprintf("%s; it may be started again in %v", fsys.ReasonOf(x.failed), left.Round(time.Millisecond)))
	}
	return nil, false, nil
}

// idling reports whether the server would have to be started to be asked.
func (x *server) idling() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.session == nil
}

func (x *server) start(ctx context.Context) (provider.Session, int, error) {
	if x.s.opts.Provider == nil {
		return nil, 0, fsys.E(fsys.Unsupported, "this daemon reaches no servers of tools")
	}
	spec, err := x.s.spec(ctx, x.config)
	if err != nil {
		return nil, 0, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startTime, fsys.E(fsys.Timeout, "the server was not ready in time"))
	defer cancel()
	session, err := x.s.opts.Provider.Start(ctx, spec)
	if err != nil {
		return nil, 0, err
	}
	list, err := session.List(ctx)
	if err != nil {
		session.Close(ctx)
		return nil, 0, err
	}
	return session, len(list), nil
}

// release says that a user uses the server no longer.
func (x *server) release() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.users--; x.users > 0 || x.session == nil {
		return
	}
	if x.idle == nil {
		x.idle = time.AfterFunc(x.config.idle(), x.endIdle)
		return
	}
	x.idle.Reset(x.config.idle())
}

// endIdle ends a server that nobody uses.
func (x *server) endIdle() {
	x.mu.Lock()
	session := x.session
	if x.users > 0 || session == nil {
		x.mu.Unlock()
		return
	}
	x.session = nil
	x.mu.Unlock()
	session.Close(x.s.life)
	x.s.note(x.s.life, "tool.ended", ended{x.name, "nobody used it"})
}

type ended struct {
	Server string `json:"server"`
	Reason string `json:"reason"`
}

// retire ends the server for good.
func (x *server) retire(ctx context.Context) {
	x.mu.Lock()
	session := x.session
	x.over, x.session = true, nil
	if x.idle != nil {
		x.idle.Stop()
	}
	x.mu.Unlock()
	if session == nil {
		return
	}
	session.Close(ctx)
	x.s.note(ctx, "tool.ended", ended{x.name, "it is needed no longer"})
}

// crashed records the end of a session that nobody ended.
func (x *server) crashed(session provider.Session) {
	x.mu.Lock()
	ours := x.lost(session)
	err := x.failed
	x.mu.Unlock()
	if ours {
		x.s.note(x.s.life, "tool.failed", ended{x.name, fsys.ReasonOf(err)})
	}
}

// lost takes note of a session that has ended, once. The lock is held.
func (x *server) lost(session provider.Session) bool {
	if x.session != session {
		return false
	}
	x.session = nil
	x.delay(session.Err())
	return true
}

// fail records that the server could not be started.
func (x *server) fail(ctx context.Context, err error) {
	x.mu.Lock()
	x.delay(err)
	x.mu.Unlock()
	x.s.note(ctx, "tool.failed", ended{x.name, fsys.ReasonOf(err)})
}

// delay leaves the server alone for a time. The lock is held.
func (x *server) delay(err error) {
	x.failed = err
	x.until = x.s.opts.Now().Add(min(firstDelay<<min(x.failures, 10), mostDelay))
	x.failures++
}

// succeeded forgets the failures.
func (x *server) succeeded() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.failures, x.failed = 0, nil
}

// enter admits one more call.
func (x *server) enter() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.calls >= x.config.calls() {
		return fsys.E(fsys.Busy, fmt.Sprintf("%d calls of this server are under way; max_calls says how many may be", x.calls))
	}
	x.calls++
	return nil
}

func (x *server) leave() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.calls--
}
