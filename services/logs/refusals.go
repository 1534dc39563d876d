package logs

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"agent9/fsys"
	"agent9/store"
)

// How many refusals of one caller have a line each: refusalBurst, and one more
// for each refusalEvery that passes. Of the others there is a line for each
// refusalEvery, with their number, so that nobody fills a disk by asking for
// what is refused.
const (
	refusalBurst = 256
	refusalEvery = 10 * time.Second
)

// maxReason and maxPath bound what a line says, in bytes.
const (
	maxReason = 1024
	maxPath   = 1024
)

// Refused records that an operation of who ctx names was refused, in errors
// and as the event "refused". It is readable and durable when Refused returns,
// also if ctx is done, unless the caller has been refused too often: then it
// is counted, and the count is a line within refusalEvery, or by [Logs.Close].
// Those on the operator's own socket are never too many.
func (l *Logs) Refused(ctx context.Context, path, op string, err error) {
	r := refusal{
		Path: shortened(path, maxPath), Op: op, Code: fsys.CodeOf(err).String(),
		Reason: shortened(reason(err), maxReason), By: fsys.CallerOf(ctx),
	}
	if by := fsys.CredentialOf(ctx); by == string(fsys.Operator) || l.admits(by, r) {
		l.refused(ctx, r)
	}
}

// refused records r. If that fails nobody can be told but the daemon's log: the
// caller has an error already.
func (l *Logs) refused(ctx context.Context, r refusal) {
	if err := l.record(context.WithoutCancel(ctx), r); err != nil {
		slog.Error("a refusal could not be recorded", "line", string(fsys.Line(r)), "err", err)
	}
}

func (l *Logs) record(ctx context.Context, all ...refusal) error {
	return l.st.Update(ctx, func(tx store.Store) error {
		for _, r := range all {
			if err := l.errors.Append(tx, fsys.Line(stamped{l.now(), r})); err != nil {
				return err
			}
			if err := l.Note(tx, "refused", r); err != nil {
				return err
			}
		}
		return nil
	})
}

type stamped struct {
	Time string `json:"time"`
	refusal
}

type refusal struct {
	Path   string      `json:"path"`
	Op     string      `json:"op"`
	Code   string      `json:"code"`
	Reason string      `json:"reason"`
	By     fsys.Caller `json:"by,omitempty"`
	// More, if not 0, is how many refusals this line stands for; it tells of
	// the last of them.
	More int `json:"more,omitempty"`
}

func reason(err error) string {
	if r := fsys.ReasonOf(err); r != "" {
		return r
	}
	return fsys.CodeOf(err).Text()
}

func shortened(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most] + "…"
}

// A tally is what one caller has been refused, by one token or socket.
type tally struct {
	left int       // lines that it may have
	at   time.Time // when left was counted
	more int       // refusals since the last line
	last refusal
	due  *time.Timer // of the line that tells of them
}

// maxTallies is how many callers are told apart; of more, those that have not
// been refused for long are forgotten.
const maxTallies = 1024

// admits reports whether r gets a line of its own, and else counts it.
func (l *Logs) admits(by string, r refusal) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.tallies[by]
	if t == nil {
		l.forget()
		t = &tally{left: refusalBurst, at: time.Now()}
		l.tallies[by] = t
	}
	if n := int(time.Since(t.at) / refusalEvery); n > 0 {
		t.left = min(refusalBurst, t.left+n)
		t.at = t.at.Add(time.Duration(n) * refusalEvery)
	}
	if t.left > 0 && t.more == 0 {
		t.left--
		return true
	}
	t.more, t.last = t.more+1, r
	if t.due == nil && !l.ended {
		t.due = time.AfterFunc(refusalEvery, func() { l.sumUp(t) })
	}
	return false
}

// sumUp records how many refusals had no line.
func (l *Logs) sumUp(t *tally) {
	l.mu.Lock()
	if l.ended {
		l.mu.Unlock()
		return
	}
	r := t.sum()
	l.summing.Add(1)
	l.mu.Unlock()
	defer l.summing.Done()
	l.refused(context.Background(), r)
}

// sum returns what tells of the refusals that had no line, and counts anew.
func (t *tally) sum() refusal {
	r := t.last
	r.More = t.more
	r.Reason = fmt.Sprintf("%d more were refused; the last: %s", t.more, r.Reason)
	t.more, t.due = 0, nil
	t.left = max(0, t.left-1)
	return r
}

// Close records what waits to be summed up, in the order of the callers' names.
// What is refused too often afterwards is not counted.
func (l *Logs) Close(ctx context.Context) error {
	var left []refusal
	for _, t := range l.hush() {
		left = append(left, t.sum())
	}
	l.summing.Wait()
	if len(left) == 0 {
		return nil
	}
	slices.SortFunc(left, func(a, b refusal) int { return strings.Compare(string(a.By), string(b.By)) })
	return l.record(ctx, left...)
}

// forget makes room for another tally. The logs' mu is held.
func (l *Logs) forget() {
	if len(l.tallies) < maxTallies {
		return
	}
	for by, t := range l.tallies {
		if t.due == nil {
			delete(l.tallies, by)
		}
	}
}

// hush ends what would still sum up, and returns it.
func (l *Logs) hush() (left []*tally) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	for _, t := range l.tallies {
		if t.due != nil {
			t.due.Stop()
			left = append(left, t)
		}
	}
	clear(l.tallies)
	return left
}
