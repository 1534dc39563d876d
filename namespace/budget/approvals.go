package budget

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strconv"
	"time"

	"agent9/fsys"
	"agent9/store"
	"agent9/store/due"
)

// How long an approval is waited for if limits do not say, and at most.
const (
	defaultWait = 24 * time.Hour
	longestWait = 365 * 24 * time.Hour
)

// maxWaiting is how many approvals of an account may wait.
const maxWaiting = 256

// Approvals are what an account's work waits for: a person's agreement that
// it may cost more than the approval threshold. Its money is held meanwhile.
// What is decided, and how the work goes on, is one transaction; who decides
// first decides. Nobody's agreement within the time that limits say is a
// denial, also if the program was not running then.
//
// At any time there may be one of an account. It has a timer while something
// waits, which refers to it, and otherwise nothing that runs.
type Approvals struct {
	a     *Account
	life  context.Context
	told  map[string]Told
	timer *due.Timer
}

// Told is called in the transaction that decides about a service's work: with
// the hold, which waits no longer, or with why it was refused. Work that was
// refused settles its hold in the same transaction.
type Told func(ctx context.Context, tx store.Store, job int64, hold *Hold, refused error) error

// A Question is what a person is told of work that waits, besides the money.
type Question struct {
	Service  string `json:"service"` // see [Approvals.Tell]
	Job      int64  `json:"job"`     // of the service
	Provider string `json:"provider,omitempty"`
	Model    string `json:"model,omitempty"`
}

// An Approval is a Question that waits, under "wait/" and its padded id, and
// what its file says.
type Approval struct {
	ID string `json:"id"` // of the hold
	Question
	What string `json:"what"`
	Max  Micros `json:"max_microusd"`
	// Threshold is that of Account, this one or one above it.
	Threshold Micros      `json:"threshold_microusd"`
	Account   string      `json:"account,omitempty"`
	Asked     string      `json:"asked"`
	Expires   string      `json:"expires"`
	By        fsys.Caller `json:"by,omitempty"` // who asked
}

const waitPrefix = "wait/"

// waitKey returns where the approval id is, or NotExist if none is called so.
func waitKey(id string) (string, error) {
	n, err := strconv.ParseUint(id, 10, 64)
	if err != nil || strconv.FormatUint(n, 10) != id {
		return "", fsys.NotExist
	}
	return fmt.Sprintf("%s%020d", waitPrefix, n), nil
}

// NewApprovals returns the approvals of a, whose timer ends with life.
func NewApprovals(life context.Context, a *Account) *Approvals {
	p := &Approvals{a: a, life: life, told: make(map[string]Told)}
	p.timer = due.New(a.opts.Now, p.sweep)
	return p
}

// Tell makes told hear what is decided about the work of service. It is called
// before Start.
func (p *Approvals) Tell(service string, told Told) { p.told[service] = told }

// Start begins to watch the time of what waits, and denies what expired
// while nobody did.
func (p *Approvals) Start(ctx context.Context) error {
	for w, err := range p.all(ctx) {
		if err != nil {
			return err
		}
		p.timer.At(w.expires())
	}
	p.timer.Start(p.life)
	return nil
}

// End stops the timer. What waits goes on waiting, for the next Start.
func (p *Approvals) End() { p.timer.Stop() }

// all yields what waits, oldest first.
func (p *Approvals) all(ctx context.Context) iter.Seq2[Approval, error] {
	return func(yield func(Approval, error) bool) {
		for pair, err := range store.All(ctx, store.Forgiving(p.a.st), waitPrefix) {
			var w Approval
			if err == nil && pair.Value == nil {
				continue // agentd fsck names it
			}
			if err == nil {
				err = fsys.Wrap(fsys.Internal, "the approval "+pair.Key, json.Unmarshal(pair.Value, &w))
			}
			if !yield(w, err) {
				return
			}
		}
	}
}

// Waiting returns how many approvals wait.
func (p *Approvals) Waiting(ctx context.Context) (int, error) {
	page, err := store.Forgiving(p.a.st).List(ctx, waitPrefix, "", maxWaiting)
	return len(page), err
}

// Take is [Take] for work that can wait. Above the threshold it asks q, and
// the hold waits; then the service is told what was decided.
func (p *Approvals) Take(ctx context.Context, tx store.Store, max Micros, what string, q Question) (*Hold, error) {
	if a, ok := From(ctx); !ok || a != p.a {
		return Take(ctx, tx, max, what)
	}
	return p.a.take(context.WithoutCancel(ctx), tx, max, what, func(h *Hold, over *books) error {
		return p.ask(ctx, tx, h, over, q)
	})
}

func (p *Approvals) ask(ctx context.Context, tx store.Store, h *Hold, over *books, q Question) error {
	in := store.In(tx, p.a.st)
	page, err := store.Forgiving(in).List(ctx, waitPrefix, "", maxWaiting)
	if err != nil {
		return err
	}
	if len(page) == maxWaiting {
		return fsys.E(fsys.Busy, fmt.Sprintf("this needs an approval, and %d requests for approval are already waiting", maxWaiting))
	}
	wait := defaultWait
	if ms := over.limits.ApprovalExpires; ms != nil {
		wait = time.Duration(*ms) * time.Millisecond
	}
	now := p.a.opts.Now()
	w := Approval{
		ID: h.ID(), Question: q, What: h.What(), Max: h.Max(),
		Threshold: *over.limits.ApprovalThreshold, Account: over.a.opts.Name,
		Asked: fsys.Stamp(now), Expires: fsys.Stamp(now.Add(wait)), By: fsys.CallerOf(ctx),
	}
	key, err := waitKey(w.ID)
	if err != nil {
		return err
	}
	if err := store.PutJSON(ctx, in, key, w); err != nil {
		return err
	}
	store.After(tx, func() { p.timer.At(w.expires()) })
	return p.a.opts.Note.Record(tx, "approval.asked", w)
}

// Withdraw takes back what the work that h is for waits for, and returns its
// hold, to be settled in the same transaction; NotExist if it does not wait.
func (p *Approvals) Withdraw(ctx context.Context, tx store.Store, id string) (*Hold, error) {
	w, err := p.load(ctx, store.In(tx, p.a.st), id)
	if err != nil {
		return nil, err
	}
	return p.close(ctx, tx, w, "approval.withdrawn", "")
}

// load returns the approval id as s has it.
func (p *Approvals) load(ctx context.Context, s store.Store, id string) (Approval, error) {
	key, err := waitKey(id)
	if err != nil {
		return Approval{}, err
	}
	return store.GetJSON[Approval](ctx, s, key)
}

// decided is the event of what became of an approval.
type decided struct {
	ID string `json:"id"`
	Question
	Max    Micros      `json:"max_microusd"`
	Reason string      `json:"reason,omitempty"`
	By     fsys.Caller `json:"by,omitempty"` // who decided
}

// close removes w and returns its hold, which waits no longer.
func (p *Approvals) close(ctx context.Context, tx store.Store, w Approval, event, reason string) (*Hold, error) {
	in := store.In(tx, p.a.st)
	key, err := waitKey(w.ID)
	if err != nil {
		return nil, err
	}
	if err := in.Delete(ctx, key); err != nil {
		return nil, err
	}
	r, err := store.GetJSON[record](ctx, in, holdPrefix+w.ID)
	if err != nil {
		return nil, err
	}
	r.Waits = false
	if err := store.PutJSON(ctx, in, holdPrefix+w.ID, r); err != nil {
		return nil, err
	}
	d := decided{ID: w.ID, Question: w.Question, Max: w.Max, Reason: reason, By: fsys.CallerOf(ctx)}
	return &Hold{p.a, w.ID, r}, p.a.opts.Note.Record(tx, event, d)
}
