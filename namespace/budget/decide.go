package budget

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"agent9/fsys"
	"agent9/store"
)

// expires is when w is denied; the stamp has milliseconds.
func (w *Approval) expires() time.Time {
	t, err := time.Parse(time.RFC3339, w.Expires)
	if err != nil {
		return time.Time{} // at once: nobody could wait for it
	}
	return t
}

// decide does what the words say that were written to the file of id.
func (p *Approvals) decide(ctx context.Context, id string, words []string) error {
	deny := words[0] == "deny"
	if !deny && (words[0] != "approve" || len(words) > 1) {
		return fsys.E(fsys.Invalid, "write approve, or deny and perhaps a reason")
	}
	late := false
	err := p.a.st.Update(ctx, func(tx store.Store) error {
		w, err := p.load(ctx, store.In(tx, p.a.st), id)
		if errors.Is(err, fsys.NotExist) {
			return notOpen(id)
		}
		if err != nil {
			return err
		}
		if late = !p.a.opts.Now().Before(w.expires()); late {
			return p.expired(ctx, tx, w)
		}
		if deny {
			return p.deny(ctx, tx, w, strings.Join(words[1:], " "))
		}
		return p.approve(ctx, tx, w)
	})
	if err == nil && late {
		return fsys.E(fsys.Busy, fmt.Sprintf("approval %s has expired", id))
	}
	return err
}

// notOpen is for who decides about what does not wait.
func notOpen(id string) error {
	return fsys.E(fsys.Busy, fmt.Sprintf("approval %s is not open: it was decided or withdrawn, has expired, or never was", id))
}

func (p *Approvals) approve(ctx context.Context, tx store.Store, w Approval) error {
	told := p.told[w.Service]
	if told == nil {
		return fsys.E(fsys.Unavailable, "nobody here does the work of "+w.Service)
	}
	hold, err := p.close(ctx, tx, w, "approval.approved", "")
	if err != nil {
		return err
	}
	return told(ctx, tx, w.Job, hold, nil)
}

func (p *Approvals) deny(ctx context.Context, tx store.Store, w Approval, reason string) error {
	why := "the approval was denied"
	if by := fsys.CallerOf(ctx); by != "" {
		why += " by " + string(by)
	}
	if reason != "" {
		why += ": " + reason
	}
	return p.refuse(ctx, tx, w, "approval.denied", reason, fsys.E(fsys.Permission, why))
}

func (p *Approvals) expired(ctx context.Context, tx store.Store, w Approval) error {
	ctx = fsys.WithCaller(ctx, "") // nobody decided
	return p.refuse(ctx, tx, w, "approval.expired", "", fsys.E(fsys.Timeout, "the approval was not given by "+w.Expires))
}

func (p *Approvals) refuse(ctx context.Context, tx store.Store, w Approval, event, reason string, why error) error {
	hold, err := p.close(ctx, tx, w, event, reason)
	if err != nil {
		return err
	}
	if told := p.told[w.Service]; told != nil {
		if err := told(ctx, tx, w.Job, hold, why); err != nil {
			return err
		}
	}
	return hold.Settle(tx, 0, fsys.ReasonOf(why)) // which it did, if there was somebody
}

// A timer that fires late, because the clock was set or the machine slept, is
// late by longestTimer at most; after an error it fires again after retryAfter.
const (
	longestTimer = time.Minute
	retryAfter   = time.Minute
)

// watch sees to it that something happens when an approval is due.
func (p *Approvals) watch(due time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended || p.timer != nil && !due.Before(p.due) {
		return
	}
	if p.timer != nil {
		p.timer.Stop()
	}
	p.due = due
	p.timer = time.AfterFunc(min(max(due.Sub(p.a.opts.Now()), 0), longestTimer), p.sweep)
}

// sweep denies what has expired, and watches the rest.
func (p *Approvals) sweep() {
	p.mu.Lock()
	p.timer = nil
	p.mu.Unlock()
	if p.life.Err() != nil {
		return
	}
	next, err := p.denyLate()
	if err != nil && p.life.Err() == nil {
		slog.Warn("approvals that have expired could not be denied", "account", p.a.opts.Name, "err", err)
		next = p.a.opts.Now().Add(retryAfter)
	}
	if !next.IsZero() {
		p.watch(next)
	}
}

// denyLate denies what has expired, and returns when the next one does.
func (p *Approvals) denyLate() (next time.Time, err error) {
	var errs []error
	for w, err := range p.all(p.life) {
		if err != nil {
			return next, err
		}
		due := w.expires()
		if !p.a.opts.Now().Before(due) {
			errs = append(errs, p.denyIfOpen(w.ID))
		} else if next.IsZero() || due.Before(next) {
			next = due
		}
	}
	return next, errors.Join(errs...)
}

func (p *Approvals) denyIfOpen(id string) error {
	return p.a.st.Update(p.life, func(tx store.Store) error {
		w, err := p.load(p.life, store.In(tx, p.a.st), id)
		if errors.Is(err, fsys.NotExist) {
			return nil // decided since
		}
		if err != nil {
			return err
		}
		return p.expired(p.life, tx, w)
	})
}
