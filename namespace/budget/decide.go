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
	"agent9/store/due"
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
		return fsys.E(fsys.Invalid, "write approve, or deny with an optional reason")
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
	return fsys.E(fsys.Busy, fmt.Sprintf("approval %s is not open: it was decided or withdrawn, has expired, or never existed", id))
}

func (p *Approvals) approve(ctx context.Context, tx store.Store, w Approval) error {
	told := p.told[w.Service]
	if told == nil {
		return fsys.E(fsys.Unavailable, "no service here can do the work of "+w.Service)
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
	return p.refuse(ctx, tx, w, "approval.expired", "", fsys.E(fsys.Timeout, "no approval was given by "+w.Expires))
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

// sweep denies what has expired, and returns when it looks again.
func (p *Approvals) sweep(ctx context.Context) time.Time {
	next, err := p.denyLate(ctx)
	if err != nil && ctx.Err() == nil {
		slog.Warn("approvals that have expired could not be denied", "account", p.a.opts.Name, "err", err)
		next = p.a.opts.Now().Add(due.Recheck)
	}
	return next
}

// denyLate denies what has expired, and returns when the next one does.
func (p *Approvals) denyLate(ctx context.Context) (next time.Time, err error) {
	var errs []error
	for w, err := range p.all(ctx) {
		if err != nil {
			return next, err
		}
		at := w.expires()
		if !p.a.opts.Now().Before(at) {
			errs = append(errs, p.denyIfOpen(ctx, w.ID))
		} else if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	return next, errors.Join(errs...)
}

func (p *Approvals) denyIfOpen(ctx context.Context, id string) error {
	return p.a.st.Update(ctx, func(tx store.Store) error {
		w, err := p.load(ctx, store.In(tx, p.a.st), id)
		if errors.Is(err, fsys.NotExist) {
			return nil // decided since
		}
		if err != nil {
			return err
		}
		return p.expired(ctx, tx, w)
	})
}
