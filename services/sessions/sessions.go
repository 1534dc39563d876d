// Package sessions serves conversations with an agent as files.
//
//	new              Message: {title?, profile?}, or the title; reply: the session's number
//	<n>/
//	  prompt         Message: text, or a JSON value, for the agent; reply: the prompt's number
//	  queue          Text: the prompts that wait: prompt, author, time, text or data
//	  stream         Stream: the answers as they come, each ending in a newline
//	  transcript     Stream: everything that was said, as JSON lines: see [Line]
//	  status         JSON: state, title, times, prompts, when it ends by itself, cost
//	  ctl            Message: pause, resume, cancel [N], end
//
// Prompts of a session are answered one after another, in the order in which
// they were acknowledged, whoever wrote them; sessions are answered at the same
// time, as many as the configuration allows, and take turns.
//
// stream and transcript end when the session does. Whoever comes back at the
// offset where he stopped misses nothing, also after a restart. What is read of
// a transcript is on disk, and so is the stream of a prompt that was answered.
// If the program is killed in an answer, up to 16 KiB that were shown of it
// may be blanks afterwards: what follows lies behind them.
//
// # What is cut off
//
// A prompt whose number was given is answered: it is in the transcript once,
// as what the user says, and once as an answer with an outcome: done, failed
// or cancelled. If the program dies meanwhile, the prompt is taken up again by
// the next one. Whether the answer goes on where it was, or begins anew, is for
// who runs it: see [Answer.Again]. The transcript then has the first part with
// the outcome interrupted, before the whole.
//
// # The end
//
// A session in which nothing waits or runs ends after a time without a prompt
// or command. Before that there is an event, sessions.ending. Nothing runs
// meanwhile: when nobody refers to the agent, the end is recorded when
// somebody looks, for the time at which it was due.
//
// What has ended can be read for a time and up to a size, and resume opens it
// again; then it is swept, the oldest first, in the transactions that begin
// and end others. Removing a session's directory ends and removes it;
// removing a file of it only hides that, so that rm -r works.
package sessions

import (
	"context"
	"errors"
	"sync"
	"time"
	"weak"

	"agent9/fsys"
	"agent9/namespace/budget"
	"agent9/store"
	"agent9/store/due"
)

// Options are what a Service works with.
type Options struct {
	// Store is this service's own.
	Store store.Updater
	// Name is the agent's, the author of what it says.
	Name string
	// Run answers a prompt. Usage is what that has cost, also with an error.
	Run func(ctx context.Context, t Turn, a *Answer) (cost budget.Micros, err error)
	// Working, if set, returns why no prompt is begun now; nil if it is. It
	// must not block. When it turns nil, Start must be called.
	Working func() error
	// Token, if set, says why a prompt that waits and came with the token of this
	// id is not begun any more, or nil.
	Token func(ctx context.Context, tx store.Store, id string) error
	// Admit, if set, refuses a prompt before it is there, and a session as one
	// for it would be refused.
	Admit func(ctx context.Context) error
	// Config, if set, is asked whenever it matters, so changes act at once.
	Config func() Config
	// Note, if set, records an event in the transaction of what it tells of.
	Note store.Note
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Config bounds the sessions; what is zero has a default.
type Config struct {
	Idle      time.Duration // until a session ends by itself, 15 minutes; from the next prompt or command on
	Keep      time.Duration // how long what has ended is kept, 30 days
	KeepBytes int64         // and up to which size of all together, 256 MiB
	Open      int           // sessions that have not ended, 1,024
	Running   int           // sessions that are answered at once, 64
	Waiting   int           // prompts that wait in one session, 64
	Profiles  []string      // what the profile of a new session may be
}

func (c Config) orDefaults() Config {
	or(&c.Idle, 15*time.Minute)
	or(&c.Keep, 30*24*time.Hour)
	or(&c.KeepBytes, 256<<20)
	or(&c.Open, 1024)
	or(&c.Running, 64)
	or(&c.Waiting, 64)
	return c
}

func or[T int | int64 | time.Duration](v *T, otherwise T) {
	if *v <= 0 {
		*v = otherwise
	}
}

// What bounds a session and a queue whatever the configuration is.
const (
	// MaxAnswer is how many bytes an answer may have.
	MaxAnswer = 4 << 20
	// MaxSession is from how many bytes on a session takes no more prompts.
	MaxSession = 64 << 20
	// maxQueued is how many bytes may wait in one session.
	maxQueued = 4 << 20
	// maxAttempts is how often an answer is begun.
	maxAttempts = 3
)

// A Service is the sessions of one agent. At any time there may be one
// on a store.
type Service struct {
	life context.Context
	end  context.CancelCauseFunc
	opts Options
	st   store.Updater
	root *fsys.Table

	mu      sync.Mutex
	known   map[int64]weak.Pointer[session] // in memory for whoever looks at them
	busy    map[int64]*session              // in ready, or with a worker
	ready   []*session                      // wait for a worker
	working int                             // workers
	lapsing chan struct{}                   // closed when what time has done is recorded; nil: nobody is at it
	quiet   chan struct{}                   // closed when nothing works or lapses
	timer   *due.Timer                      // of due
	due     time.Time                       // not after the first session is idle for too long; zero: none is
	seen    time.Time                       // what the clock said when it was last looked at
}

// errCutOff is why a Turn ends that the end of the daemon cuts off.
var errCutOff = fsys.E(fsys.Canceled, "the daemon is shutting down")

// CutOff reports whether the ctx of a Turn ended because the daemon does: the
// Turn is then taken up again by the next one.
func CutOff(ctx context.Context) bool { return errors.Is(context.Cause(ctx), errCutOff) }

// Open returns the service whose records are in opts.Store. Start goes on with
// the prompts that wait there. Its work ends with life. A service in which
// nothing runs has no goroutine, and nothing but a timer that does not refer
// to it.
func Open(life context.Context, opts Options) (*Service, error) {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Working == nil {
		opts.Working = func() error { return nil }
	}
	s := &Service{
		opts:  opts,
		seen:  opts.Now(),
		st:    opts.Store,
		known: make(map[int64]weak.Pointer[session]),
		busy:  make(map[int64]*session),
	}
	s.life, s.end = lifeOf(s, life)
	s.root = fsys.NewTableWith(list{s}, fsys.Entry{Name: newName, Node: &fsys.Call{Do: s.create, Admit: s.begins}})
	s.timer = lapseTimer(s)
	s.timer.Start(s.life)
	return s, s.firstDue(life)
}

// Root returns the files.
func (s *Service) Root() fsys.Node { return s.root }

func (s *Service) config() Config {
	if s.opts.Config == nil {
		return Config{}.orDefaults()
	}
	return s.opts.Config().orDefaults()
}

// Interrupted reports whether the records in st have prompts that wait for
// nothing but to be answered, which Start goes on with.
func Interrupted(ctx context.Context, st store.Store) (bool, error) {
	page, err := store.Forgiving(st).List(ctx, workPrefix, "", 1)
	return len(page) > 0, err
}

// Start goes on with the prompts that wait: after Open, and after Working said
// no.
func (s *Service) Start(ctx context.Context) error {
	for p, err := range store.All(ctx, store.Forgiving(s.st), workPrefix) {
		if err != nil {
			return err
		}
		n, err := numberIn(p.Key, workPrefix)
		if err != nil {
			return err
		}
		s.wake(s.session(n))
	}
	return nil
}

// Stop cancels every prompt that is being answered, for why. Those that wait
// go on waiting.
func (s *Service) Stop(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.ready {
		delete(s.busy, x.n)
	}
	s.ready = nil
	for _, x := range s.busy {
		x.stop(0, why)
	}
}

// Close cuts off what is being answered and waits until that has stopped, or
// until ctx ends. The next Open goes on with it.
func (s *Service) Close(ctx context.Context) error {
	s.end(errCutOff)
	s.timer.Stop()
	return s.Wait(ctx)
}

// Wait waits until nothing is being answered, or until ctx ends.
func (s *Service) Wait(ctx context.Context) error {
	for {
		s.mu.Lock()
		if s.working == 0 && s.lapsing == nil {
			s.mu.Unlock()
			return nil
		}
		if s.quiet == nil {
			s.quiet = make(chan struct{})
		}
		quiet := s.quiet
		s.mu.Unlock()
		select {
		case <-quiet:
		case <-ctx.Done():
			return fsys.E(fsys.Timeout, "what answers a prompt does not stop; the prompt will be answered after the next start")
		}
	}
}

// settled wakes Wait if that is all, with s.mu held.
func (s *Service) settled() {
	if s.working == 0 && s.lapsing == nil && s.quiet != nil {
		close(s.quiet)
		s.quiet = nil
	}
}

// End says that the agent is gone: what is read here ends.
func (s *Service) End() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.known {
		if x := p.Value(); x != nil {
			x.ended()
		}
	}
}

func missing(err error) bool { return errors.Is(err, fsys.NotExist) }
