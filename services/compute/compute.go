// Package compute serves models as files.
//
//	new        Message: a request in OpenAI's form, or plain text; reply: the job's number
//	usage      JSON: held, spent, budget, jobs by state
//	providers/<id>/
//	  info     JSON: what kind of provider, and what it can do
//	  models   JSON lines: what can be asked for
//	  health   JSON: how it did lately, how fast, whether it is set aside
//	jobs/<n>/
//	  request  the request as it was submitted
//	  status   JSON: state, provider, model, times, error, cost
//	  output   Stream: the text as it is generated; ends with the job
//	  chunks   Stream: the same as JSON lines, with tool calls, finish reason, usage
//	  result   Stream: the whole response as JSON; a read waits for the end of the job
//	  usage    JSON: tokens, held, spent, price
//	  ctl      Message: cancel
//
// Besides OpenAI's fields, which go to the provider as they are, a request may
// have kind, provider, max_cost_microusd, idempotency_key and timeout_ms.
//
// mkdir jobs/NAME makes a draft: a job submitted by writing its request file,
// with NAME as its idempotency key. A key stands for its job for the time that
// the policy says, at least until that has ended, and jobs/KEY is then another
// name of it. Removing the job forgets the key.
//
// What has ended is kept for a time and up to a size, and then swept, the
// oldest first, by the transactions that record the ends of others.
//
// Removing a job's directory removes the job; one that has not ended is
// cancelled, and removed when it has. Removing a file of a job only hides it,
// so that rm -r works.
//
// # Routing
//
// Who may do a request is a chain of models of providers, made by the policy
// when it is submitted. They are asked one after the other until one answers;
// each call is an attempt. Another one follows only if the provider failed,
// nothing of an answer came, and there is money and time left.
//
// # Money
//
// A job holds max_cost_microusd, which is never less than what its request can
// cost, or else that: see [candidate.within] and [models.Load]. It is settled in
// the transaction that records the end:
//
//   - work of a free provider costs nothing;
//   - work that the provider puts a price on costs that;
//   - what the provider counted costs its tokens at the price that held when it
//     was submitted;
//   - what nobody counted costs all that was held;
//   - what was refused or never ran costs nothing.
//
// An attempt that another one follows is settled at once, and what it left is
// held on.
//
// Jobs that the end of the daemon cut off come back as failed, with the reason
// "interrupted". If they had not been started they cost nothing, nor does free
// work; of the others nobody knows, and they cost all that was held.
package compute

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"agent9/fsys"
	"agent9/namespace/budget"
	"agent9/providers/models"
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
	Providers work.Providers[*models.Runner]
	// Account pays for what a crash cut off. All other work is paid from the
	// account of the context that submits it.
	Account *budget.Account
	// Approvals ask for what is above the approval threshold of Account; nil
	// means that such jobs are refused.
	Approvals *budget.Approvals
	// Allowed, if set, says why who asks may begin no job, or nil. It is asked in
	// the transaction that records one.
	Allowed func(ctx context.Context) error
	// Token, if set, says why a job that waits and came with the token of this
	// id does not begin any more, or nil. tx may be nil.
	Token func(ctx context.Context, tx store.Store, id string) error
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Trace, if set, is told of jobs and of calls of providers.
	Trace fsys.Trace
}

// A Service turns writes into jobs. A job outlives the write that made it, and
// ends with the context given to Open. At any time there may be one Service
// on a store.
type Service struct {
	life     context.Context
	end      context.CancelCauseFunc
	config   Config
	st       store.Updater
	root     *fsys.Table
	policy   *fsys.Doc
	policies *work.Document[Policy]
	ledger   work.Ledger[record, totals, job, *job]

	mu    sync.Mutex
	rates rates
}

// Open returns the service whose records are in config.Store, and settles the
// jobs that were open when it was last in use. It costs what there are of
// these; a service that does nothing has no goroutine.
func Open(life context.Context, config Config) (*Service, error) {
	if config.Now == nil {
		config.Now = time.Now
	}
	if config.Allowed == nil {
		config.Allowed = func(context.Context) error { return nil }
	}
	s := &Service{
		config: config,
		st:     config.Store,
	}
	s.life, s.end = context.WithCancelCause(life)
	// life, which is longer, knows of the context until that is cancelled.
	runtime.AddCleanup(s, func(end context.CancelCauseFunc) { end(nil) }, s.end)
	s.ledger = work.Ledger[record, totals, job, *job]{
		Table: &table, Service: serviceName, Life: s.life, Store: s.st, Note: config.Note, Now: config.Now,
		Account: config.Account, Approvals: config.Approvals, Allowed: config.Allowed, Log: slog.Default(),
		Make:    func() *job { return &job{s: s} },
		Queue:   func(r *record) { r.State = Queued },
		Refuse:  func(r *record, why error) { r.end(config.Now(), models.Usage{}, why) },
		Ended:   s.noteEnd,
		Old:     s.old,
		Removed: func(r work.Removed) any { return removed(r) },
	}
	s.policies = policies()
	s.policy = &fsys.Doc{Load: func(ctx context.Context) ([]byte, error) { return s.policies.Text(ctx, s.st) }, Save: s.savePolicy}
	providers := make([]fsys.Entry, len(config.Providers))
	for i, r := range config.Providers {
		providers[i] = fsys.Entry{Name: r.ID(), Node: providerDir(r)}
	}
	s.root = fsys.NewTable(
		fsys.Entry{Name: "new", Node: &fsys.Call{Do: s.submitNew, Admit: s.admit, Effect: fsys.Spends}},
		fsys.Entry{Name: "usage", Node: fsys.JSON(s.usage)},
		fsys.Entry{Name: "providers", Node: fsys.NewTable(providers...)},
		fsys.Entry{Name: "jobs", Node: fsys.NewTableWith(jobs{s})},
	)
	p, err := s.policies.Read(life, s.st)
	if err != nil {
		return nil, err
	}
	if len(p.unpriced) > 0 {
		slog.Warn("a stored price of 0 counts as not known; write compute/policy with what it is", "prices", p.unpriced)
	}
	s.limit(p)
	s.ledger.Begin()
	return s, s.ledger.Recover(life, func(ctx context.Context, j *job) error {
		_, err := s.planAgain(ctx, j.Record())
		return err
	}, s.interrupted)
}

// serviceName is what events, accounts and approvals call this service.
const serviceName = "compute"

// jobOverhead is what a job counts besides its request, streams and result.
const jobOverhead = 1 << 10

// old reports whether the oldest job that has ended, so long ago, is to go.
func (s *Service) old(ctx context.Context, tx store.Store, age time.Duration) (bool, error) {
	p, err := s.policies.Read(ctx, tx)
	if err != nil {
		return false, err
	}
	t, err := table.Totals(ctx, tx)
	return age >= time.Duration(p.KeepResults) || t.Kept > p.KeepBytes, err
}

// removed is the event of a job that is no longer there: see [work.Removed].
type removed struct {
	Number int64          `json:"job"`
	Why    string         `json:"why,omitempty"`
	Reason string         `json:"reason,omitempty"`
	Cost   *budget.Micros `json:"cost_microusd,omitempty"`
}

// Root returns the files.
func (s *Service) Root() fsys.Node { return s.root }

// Policy returns the policy file. It is mounted below what Root returns, and is
// no part of that.
func (s *Service) Policy() fsys.Node { return s.policy }

// Unfinished returns how many jobs wait or run.
func (s *Service) Unfinished() int { return s.ledger.Unfinished() }

// CancelAll ends every job that waits or runs, the last one first, so that none
// of them starts because another one ends. They failed with why, or are
// cancelled if that is nil.
func (s *Service) CancelAll(why error) error {
	if why == nil {
		why = errCancelled
	}
	return s.ledger.StopAll(why)
}

// Close cuts off what runs and waits until that is recorded, or until ctx
// ends. What is still queued is settled by the next Open.
func (s *Service) Close(ctx context.Context) error {
	s.end(errInterrupted)
	return s.Wait(ctx)
}

// Wait waits until nothing runs and every end is recorded, or until ctx ends.
func (s *Service) Wait(ctx context.Context) error {
	return s.ledger.Crew.Wait(ctx, fsys.E(fsys.Timeout, "a model provider does not stop; its job will be settled at the next start"))
}

// admit refuses what needs no request to be refused.
func (s *Service) admit(ctx context.Context) error {
	if err := s.ledger.Crew.Full(); err != nil {
		return err
	}
	s.mu.Lock()
	rates := s.rates
	s.mu.Unlock()
	if rates.requests > 0 || rates.tokens > 0 {
		if _, err := s.ready(ctx, s.st, rates); err != nil {
			return err
		}
	}
	return budget.Admit(ctx)
}

func missing(err error) bool { return errors.Is(err, fsys.NotExist) }
