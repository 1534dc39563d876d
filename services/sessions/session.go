package sessions

import (
	"context"
	"runtime"
	"sync"
	"weak"

	"agent9/fsys"
	"agent9/store"
)

// A session is one conversation, in memory while somebody looks at it or it
// is being answered, so that there is one of a number at any time. All that
// matters is in its record.
type session struct {
	s *Service
	n int64

	changing fsys.Mutex // held by who changes what was said

	mu         sync.Mutex
	transcript *store.Log // nil: not opened
	stream     *store.Log
	gone       bool // with the agent

	running int64                   // the prompt that is being answered
	cancel  context.CancelCauseFunc // of its worker; nil: there is none

	again bool // something is to be done that its worker may not have seen; guarded by s.mu
}

// lifeOf returns the context of the work of s, which ends with life, or when
// s is collected: life, which is longer, knows of it until then.
func lifeOf(s *Service, life context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, end := context.WithCancelCause(life)
	runtime.AddCleanup(s, func(end context.CancelCauseFunc) { end(nil) }, end)
	return ctx, end
}

// session returns the session of that number, whether it exists or not.
func (s *Service) session(n int64) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x := s.known[n].Value(); x != nil {
		return x
	}
	x := &session{s: s, n: n}
	s.known[n] = weak.Make(x)
	runtime.AddCleanup(x, s.forget, n)
	return x
}

func (s *Service) forget(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known[n].Value() == nil {
		delete(s.known, n)
	}
}

// record returns the record as it is now, what time has done included;
// NotExist if there is none, or it is about to go.
func (x *session) record(ctx context.Context) (record, error) {
	if err := x.s.look(ctx); err != nil {
		return record{}, err
	}
	r, err := store.GetJSON[record](ctx, x.s.st, recordKey(x.n))
	if err == nil && r.Removing {
		err = fsys.NotExist
	}
	return r, err
}

// open opens what was said.
func (x *session) open(ctx context.Context) (transcript, stream *store.Log, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.transcript != nil {
		return x.transcript, x.stream, nil
	}
	r, err := store.GetJSON[record](ctx, x.s.st, recordKey(x.n))
	if err != nil {
		return nil, nil, err
	}
	if transcript, err = store.OpenLog(ctx, store.Sub(x.s.st, transcriptView(x.n))); err != nil {
		return nil, nil, err
	}
	if stream, err = store.OpenLog(ctx, store.Sub(x.s.st, streamView(x.n))); err != nil {
		return nil, nil, err
	}
	x.transcript, x.stream = transcript, stream
	if r.ended() || x.gone {
		x.endTapes()
	}
	return transcript, stream, nil
}

// endTapes lets readers go, with x.mu held.
func (x *session) endTapes() {
	if x.transcript != nil {
		x.transcript.Tape().End()
		x.stream.Tape().End()
	}
}

// ended says that nothing more will be said.
func (x *session) ended() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.gone = true
	x.endTapes()
}

// reopened says that more will be said after all. Who reads what had ended
// keeps what he has.
func (x *session) reopened() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.transcript, x.stream, x.gone = nil, nil, false
}

// starting says who can stop the worker that takes a prompt now.
func (x *session) starting(cancel context.CancelCauseFunc) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.running, x.cancel = 0, cancel
}

// took says which prompt the worker has.
func (x *session) took(prompt int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.running = prompt
}

// works reports whether a worker has that prompt, or, if prompt is 0, any.
func (x *session) works(prompt int64) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.cancel != nil && (x.running == prompt || prompt == 0 && x.running != 0)
}

// stop makes the answer of a prompt end for why, or, if prompt is 0, any.
func (x *session) stop(prompt int64, why error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.cancel != nil && x.running != 0 && (prompt == 0 || prompt == x.running) {
		x.cancel(why)
	}
}
