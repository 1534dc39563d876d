package containers

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"agent9/fsys"
	"agent9/namespace/budget"
	"agent9/store"
)

// verb is a command of a session's ctl.
type verb struct {
	name, arg, help string
	do              func(w *session, ctx context.Context, arg string) error
}

func verbs() []verb {
	return []verb{
		{"stop", "", "end the session; its commands get SIGTERM first", func(w *session, _ context.Context, _ string) error { return w.askToEnd() }},
		{"kill", "", "end the session at once", func(w *session, _ context.Context, _ string) error { return w.s.ledger.Stop(w, errStopped) }},
		{"keep", "", "leave the session open after its last command", (*session).keepOpen},
		{"extend", "SECONDS", "let it live so long from now, used or not", (*session).extend},
		{"snapshot", "NAME", "copy the workspace to one that persists under this name", (*session).snapshot},
	}
}

func (w *session) commands(context.Context) ([]byte, error) {
	var b strings.Builder
	for _, v := range verbs() {
		b.WriteString(strings.TrimSpace(v.name+" "+v.arg) + "\t" + v.help + "\n")
	}
	return []byte(b.String()), nil
}

func (w *session) control(ctx context.Context, words []string) ([]byte, error) {
	var names []string
	for _, v := range verbs() {
		if v.name != words[0] {
			names = append(names, v.name)
			continue
		}
		if want := len(strings.Fields(v.name + " " + v.arg)); len(words) != want {
			return nil, fsys.E(fsys.Invalid, "want "+strings.TrimSpace(v.name+" "+v.arg))
		}
		if r := w.Record(); r.State.ended() {
			return nil, fsys.E(fsys.Busy, fmt.Sprintf("session %d has ended: %s", w.N, r.State))
		}
		return nil, v.do(w, ctx, strings.Join(words[1:], " "))
	}
	return nil, fsys.E(fsys.Invalid, "unknown command "+words[0]+"; there are: "+strings.Join(names, ", "))
}

// askToEnd ends w when its commands have ended, to which they are given some
// time.
func (w *session) askToEnd() error {
	w.mu.Lock()
	up := w.box != nil
	w.mu.Unlock()
	if !up || !w.hangUp() {
		return w.s.ledger.Stop(w, errStopped)
	}
	grace := time.AfterFunc(seconds(w.plan.policy.StopGrace), func() { w.Cancel(errStopped) })
	context.AfterFunc(w.Ctx, func() { grace.Stop() })
	w.mu.Lock()
	left := len(w.running)
	w.mu.Unlock()
	if left == 0 {
		w.Cancel(errStopped)
	}
	return nil
}

func (w *session) keepOpen(ctx context.Context, _ string) error {
	err := w.s.st.Update(ctx, func(tx store.Store) error {
		return w.s.ledger.Change(ctx, tx, w, func(r *record) { r.Keep = true })
	})
	w.wakeClock()
	return err
}

// extend lets w live some seconds from now, for which money is held.
func (w *session) extend(ctx context.Context, arg string) error {
	n, err := strconv.ParseInt(arg, 10, 64)
	if err != nil || n < 1 || n > 30*86_400 {
		return fsys.E(fsys.Invalid, "extend wants a number of seconds, such as 600")
	}
	now := w.s.config.Now()
	until := now.Add(seconds(n))
	r := w.Record()
	if r.Up.IsZero() {
		return errNotReady
	}
	if last := w.cameUp().Add(seconds(w.plan.policy.MaxLife)); until.After(last) {
		return fsys.E(fsys.Invalid, fmt.Sprintf("the policy lets no session live longer than %d seconds; this one can be extended by %d", w.plan.policy.MaxLife, int64(last.Sub(now).Seconds())))
	}
	if err := w.holdFor(ctx, r.Price.cost(until.Sub(w.cameUp()))); err != nil {
		return err
	}
	w.mu.Lock()
	if w.until.Before(until) {
		w.until = until
	}
	w.mu.Unlock()
	w.wakeClock()
	return nil
}

// holdFor sets more aside for w, if what is held is less than need. What is held is
// read where it is changed: many may ask at once.
func (w *session) holdFor(ctx context.Context, need budget.Micros) error {
	if w.Record().Held >= need {
		return nil
	}
	if _, ok := budget.From(ctx); !ok {
		ctx = budget.With(ctx, w.s.config.Account)
	}
	var taken *budget.Hold
	err := w.s.st.Update(ctx, func(tx store.Store) error {
		r, err := table.Read(ctx, tx, w.N)
		switch {
		case err != nil:
			return err
		case r.State.ended():
			return fsys.E(fsys.Busy, "the session has ended")
		case r.Held >= need:
			return nil
		}
		more := need - r.Held
		if taken, err = budget.TakeMore(ctx, tx, more, r.Held, w.s.ledger.For(w.N)+", extended"); err != nil {
			return err
		}
		err = w.s.ledger.Change(ctx, tx, w, func(r *record) {
			r.Held += more
			r.Holds = append(r.Holds, taken.ID())
		})
		if err != nil {
			return err
		}
		w.AddHold(taken) // what is settled in the next transaction has it
		return nil
	})
	if err != nil {
		w.DropHold(taken)
	}
	return err
}
