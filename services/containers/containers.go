// Package containers serves sandboxes as files.
//
//	new        Message: a request in JSON, or one line for the shell; reply: the
//	           session's number
//	usage      JSON: held, spent, budget, sessions by state
//	providers/<id>/
//	  info     JSON: what kind of provider, and which limits it enforces
//	  images   JSON lines: what is there without a pull
//	  health   JSON: whether it can be used now
//	workspaces/<name>@<provider>  JSON: which session has it; rm removes it
//	sessions/<n>/
//	  request  the request as it was submitted
//	  status   JSON: state, exit code, times, error, cost
//	  output   Stream: what happens, and what the commands write, as it comes
//	  stdout   Stream: of that, what the commands write there
//	  stderr   Stream: the same
//	  result   Stream: how each command ended, as JSON; a read waits for the end
//	           of the session
//	  usage    JSON: time, memory, network, held, spent, price
//	  ctl      Message: stop, kill, keep, extend SECONDS, snapshot NAME
//	  exec/
//	    new    Message: a line for the shell, or a command as JSON; reply: its
//	           number
//	    <m>/   status, output, stdout, stderr, result as above, and
//	      stdin  what is written there the command reads; it ends when a writer
//	             closes it in order, but of a terminal
//	      ctl    Message: kill [SIGNAL], cancel, resize ROWS COLS, close
//	  files/   the sandbox's own files
//
// A request has image, commands, workdir, env, repo, files, limits, keep,
// continue_on_error, workspace, provider, max_cost_microusd and
// idempotency_key; what they mean is in docs/containers.md.
//
// # Life of a session
//
// The write to new answers when the session and its money are on disk. Behind
// it the sandbox is made, the repository is cloned, the files of the request are
// written, and the commands run one after another, until one of them fails.
// A session ends with its last command, unless it is kept: then it ends when it
// is stopped, when nobody used it for a time, or when it is out of life or
// money. What a session ended with is its state: done, failed (a command did,
// or the sandbox could not be made), expired (time or money), stopped.
//
// A session that ended has its files until it is removed: who looks at them
// makes the sandbox run again, with nothing in it but what serves them, and it
// is stopped when nobody has looked for a while. Sessions that have ended are
// kept for a time and up to a number, and then swept, the oldest first.
//
// Removing a session's directory removes the session and its sandbox; removing
// a file of it only hides it, and from then on files and exec look empty, so
// that rm -r ends the session and does not go through the sandbox.
//
// # Money
//
// A session holds max_cost_microusd, else what the longest that it can take
// comes to, but no more than default_max_cost_microusd of the policy. It is
// metered from when its sandbox runs, and ends when it has cost what is held.
// It is settled in the transaction that records the end. A session that the end
// of the daemon cut off comes back as failed, with the reason "interrupted",
// and costs the time for which its sandbox ran.
package containers

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"runtime"
	"sync"
	"time"

	"agent9/fsys"
	"agent9/namespace/budget"
	"agent9/providers/sandboxes"
	"agent9/services/internal/work"
	"agent9/store"
)

// Config is what a Service works with.
type Config struct {
	// Store is this service's own.
	Store store.Updater
	// Note, if set, records an event in the transaction of what it tells of.
	Note store.Note
	// Providers are in the order in which they are preferred.
	Providers work.Providers[*sandboxes.Runner]
	// Account pays for what a crash cut off. All other work is paid from the
	// account of the context that submits it.
	Account *budget.Account
	// Approvals ask for what is above the approval threshold of Account; nil
	// means that such sessions are refused.
	Approvals *budget.Approvals
	// Allowed, if set, says why who asks may begin no session, or nil. It is asked
	// in the transaction that records one.
	Allowed func(ctx context.Context) error
	// Token, if set, says why a session that waits and came with the token of this
	// id does not begin any more, or nil. tx may be nil.
	Token func(ctx context.Context, tx store.Store, id string) error
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Agent is whose sessions these are, and Owner tells it apart from every
	// other agent that there ever was, in the names of sandboxes.
	Agent, Owner string
	// Serve, if set, serves the agent's tree to a program in a session, as far as
	// the token that this came with goes.
	Serve Serve
	// GitSecret and EnvSecret return a secret by its name: for a clone of the
	// repository at url, and for the environment of commands.
	GitSecret func(ctx context.Context, name, url string) ([]byte, error)
	EnvSecret func(ctx context.Context, name string) ([]byte, error)
	// Skills, if set, are at /workspace/skills in every session.
	Skills func(ctx context.Context) ([]sandboxes.File, error)
}

// Serve serves who dialled conn in a session that came with the token of this
// id, or with none, until conn or ctx ends.
type Serve func(ctx context.Context, token string, conn net.Conn)

// A Service turns writes into sessions. A session outlives the write that made
// it, and ends with the context given to Open. At any time there may be one
// Service on a store.
type Service struct {
	life     context.Context
	end      context.CancelCauseFunc
	config   Config
	st       store.Updater
	root     *fsys.Table
	policy   *fsys.Doc
	policies *work.Document[Policy]
	ledger   work.Ledger[record, totals, session, *session]

	mu       sync.Mutex
	open     map[*session]struct{} // sandboxes that run for their files only
	infos    map[string]lately     // by provider
	sweeping bool                  // somebody empties the trash
	again    bool                  // and must look again
	pause    time.Duration         // before the trash is looked at again
	retry    *time.Timer           // does that
}

// Open returns the service whose records are in config.Store, and settles the
// sessions that were open when it was last in use. A service that does nothing
// has no goroutine.
func Open(life context.Context, config Config) (*Service, error) {
	if config.Now == nil {
		config.Now = time.Now
	}
	if config.Allowed == nil {
		config.Allowed = func(context.Context) error { return nil }
	}
	if config.GitSecret == nil {
		config.GitSecret = func(context.Context, string, string) ([]byte, error) { return nil, errNoSecrets }
	}
	if config.EnvSecret == nil {
		config.EnvSecret = func(context.Context, string) ([]byte, error) { return nil, errNoSecrets }
	}
	s := &Service{config: config, st: config.Store, open: make(map[*session]struct{}), infos: make(map[string]lately)}
	s.life, s.end = context.WithCancelCause(life)
	// life, which is longer, knows of the context until that is cancelled.
	runtime.AddCleanup(s, func(end context.CancelCauseFunc) { end(nil) }, s.end)
	s.ledger = work.Ledger[record, totals, session, *session]{
		Table: &table, Service: "containers", Life: s.life, Store: s.st, Note: config.Note, Now: config.Now,
		Account: config.Account, Approvals: config.Approvals, Allowed: config.Allowed, Log: slog.With("agent", config.Agent),
		Make:    s.newWork,
		Queue:   func(r *record) { r.State = Queued },
		Refuse:  func(r *record, why error) { r.end(config.Now(), 0, why) },
		Ended:   s.noteEnd,
		Old:     s.old,
		Removed: func(r work.Removed) any { return removed(r) },
		Lost:    "; its sandbox is removed when the daemon starts again",
	}
	s.policies = policies()
	s.policy = &fsys.Doc{Load: func(ctx context.Context) ([]byte, error) { return s.policies.Text(ctx, s.st) }, Save: s.savePolicy}
	providers := make([]fsys.Entry, len(config.Providers))
	for i, r := range config.Providers {
		providers[i] = fsys.Entry{Name: r.ID(), Node: s.providerDir(r)}
	}
	s.root = fsys.NewTable(
		fsys.Entry{Name: "new", Node: &fsys.Call{Do: s.submitNew, Admit: s.admit, Effect: fsys.Spends, Limit: maxRequest}},
		fsys.Entry{Name: "usage", Node: fsys.JSON(s.usage)},
		fsys.Entry{Name: "providers", Node: fsys.NewTable(providers...)},
		fsys.Entry{Name: "workspaces", Node: fsys.NewTableWith(workspaces{s})},
		fsys.Entry{Name: "sessions", Node: fsys.NewTableWith(sessions{s})},
	)
	p, err := s.policies.Read(life, s.st)
	if err != nil {
		return nil, err
	}
	s.ledger.Crew.Limit(p.MaxConcurrent, p.MaxQueued)
	s.ledger.Begin()
	if err := s.recover(life); err != nil {
		return nil, err
	}
	s.emptyTrash()
	return s, nil
}

var errNoSecrets = fsys.E(fsys.Unsupported, "there are none here")

// maxRequest is how many bytes a request may have: the files of it are there.
const maxRequest = 8 << 20

// Root returns the files.
func (s *Service) Root() fsys.Node { return s.root }

// Policy returns the policy file. It is mounted below what Root returns, and is
// no part of that.
func (s *Service) Policy() fsys.Node { return s.policy }

// Unfinished returns how many sessions wait or run.
func (s *Service) Unfinished() int { return s.ledger.Unfinished() }

// StopAll ends every session that waits or runs, the last one first, so that
// none of them starts because another one ends. They failed with why, or are
// stopped if that is nil.
func (s *Service) StopAll(why error) error {
	if why == nil {
		why = errStopped
	}
	return s.ledger.StopAll(why)
}

// old reports whether the oldest session that has ended, so long ago, is to go.
func (s *Service) old(ctx context.Context, tx store.Store, age time.Duration) (bool, error) {
	p, err := s.policies.Read(ctx, tx)
	if err != nil {
		return false, err
	}
	t, err := table.Totals(ctx, tx)
	return age >= time.Duration(p.KeepSessions) || t.Kept > p.KeepBytes || t.Ended > p.MaxKept, err
}

// Close cuts off what runs and waits until that is recorded and every sandbox
// is stopped, or until ctx ends. What is still queued is settled by the next
// Open.
func (s *Service) Close(ctx context.Context) error {
	s.end(errInterrupted)
	s.closeFiles()
	return s.Wait(ctx)
}

// Wait waits until nothing runs and every end is recorded, or until ctx ends.
func (s *Service) Wait(ctx context.Context) error {
	return s.ledger.Crew.Wait(ctx, fsys.E(fsys.Timeout, "a sandbox does not stop; its session will be settled at the next start"))
}

// admit refuses what needs no request to be refused.
func (s *Service) admit(ctx context.Context) error {
	if err := s.ledger.Crew.Full(); err != nil {
		return err
	}
	return budget.Admit(ctx)
}

func missing(err error) bool { return errors.Is(err, fsys.NotExist) }
