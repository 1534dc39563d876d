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
		{"kill", "", "end the session at once", func(w *session, _ context.Context, _ string) error { return w.s.stop(w, errStopped) }},
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
		if r := w.record(); r.State.ended() {
			return nil, fsys.E(fsys.Busy, fmt.Sprintf("session %d has ended: %s", w.n, r.State))
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
		return w.s.stop(w, errStopped)
	}
	grace := time.AfterFunc(seconds(w.plan.policy.StopGrace), func() { w.cancel(errStopped) })
	context.AfterFunc(w.ctx, func() { grace.Stop() })
	w.mu.Lock()
	left := len(w.running)
	w.mu.Unlock()
	if left == 0 {
		w.cancel(errStopped)
	}
	return nil
}

func (w *session) keepOpen(ctx context.Context, _ string) error {
	err := w.s.st.Update(ctx, func(tx store.Store) error {
		return w.s.change(ctx, tx, w, func(r *record) { r.Keep = true })
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
	r := w.record()
	if r.Up.IsZero() {
		return errNotReady
	}
	if last := w.cameUp().Add(seconds(w.plan.policy.MaxLife)); until.After(last) {
		return fsys.E(fsys.Invalid, fmt.Sprintf("the policy lets no session live longer than %d seconds; this one can be extended by %d", w.plan.policy.MaxLife, int64(last.Sub(now).Seconds())))
	}
	if need := r.Price.cost(until.Sub(w.cameUp())); need > r.Held {
		if err := w.holdMore(ctx, need-r.Held); err != nil {
			return err
		}
	}
	w.mu.Lock()
	if w.until.Before(until) {
		w.until = until
	}
	w.mu.Unlock()
	w.wakeClock()
	return nil
}

// holdMore sets more aside for w.
func (w *session) holdMore(ctx context.Context, more budget.Micros) error {
	if _, ok := budget.From(ctx); !ok {
		ctx = budget.With(ctx, w.s.config.Account)
	}
	return w.s.st.Update(ctx, func(tx store.Store) error {
		h, err := budget.TakeMore(ctx, tx, more, w.record().Held, heldFor(w.n)+", extended")
		if err != nil {
			return err
		}
		ended := false
		err = w.s.change(ctx, tx, w, func(r *record) {
			ended = r.State.ended()
			r.Held += more
			r.Holds = append(r.Holds, h.ID())
		})
		if err != nil {
			return err
		}
		if ended {
			return fsys.E(fsys.Busy, "the session has ended")
		}
		w.mu.Lock()
		holds := w.holds
		w.mu.Unlock()
		store.After(tx, func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.holds = append(holds, h)
		})
		return w.s.count(ctx, tx, func(t *totals) { t.Held += more })
	})
}
