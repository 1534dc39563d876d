package sessions

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"

	"agent9/fsys"
	"agent9/namespace/budget"
	"agent9/store"
)

// An Answer is where the answer to a prompt goes. It is safe for concurrent
// use, and of no use after Run has returned.
type Answer struct {
	x      *session
	ctx    context.Context
	stream *store.Log
	prompt int64

	mu      sync.Mutex
	over    bool // Run has returned
	resumed bool
	attempt int
	from    int64 // in the stream
	// Readers may have the stream as far as shown, which is on disk before
	// they do: what comes after an answer that was cut off lies behind that.
	shown   int64
	raising chan struct{} // closed when shown, which is being raised, has been
	floor   int64         // shown of an earlier run of the program; 0: there was none
}

// What readers may have of an answer before it is on disk: as much again as
// they have, within these bounds.
const (
	leastAhead = 1 << 10
	mostAhead  = 16 << 10
)

// ahead is what readers may have of an answer of so many bytes before it is on
// disk.
func ahead(given int64) int64 { return min(max(given, leastAhead), mostAhead) }

// Write adds p to the answer. Readers have it when Write returns. It is on
// disk when that is much, and at the latest when Run has returned.
func (a *Answer) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for {
		end := a.stream.Size() + int64(len(p))
		switch {
		case a.over:
			return 0, errOver
		case a.ctx.Err() != nil:
			return 0, context.Cause(a.ctx)
		case len(p) == 0:
			return 0, nil
		case end-a.from > MaxAnswer:
			return 0, fsys.E(fsys.TooLarge, fmt.Sprintf("the answer is longer than %d MiB", MaxAnswer>>20))
		case end <= a.shown:
			if err := a.stream.Buffer(p); err != nil {
				return 0, err
			}
			if a.raising == nil && a.shown-end < ahead(end-a.from)/2 {
				a.raise()
			}
			return len(p), nil
		case a.raising != nil:
			a.raised()
		default:
			shown := end + ahead(end-a.from)
			if err := a.flush(a.ctx, p, shown); err != nil {
				return 0, err
			}
			a.shown = shown
			return len(p), nil
		}
	}
}

// raise makes durable what was written, and lets readers have more, before
// somebody has to wait for that. mu is held.
func (a *Answer) raise() {
	end, done := a.stream.Size(), make(chan struct{})
	shown := end + ahead(end-a.from)
	a.raising = done
	go func() { // ends with the commit
		err := a.flush(a.ctx, nil, shown)
		a.mu.Lock()
		defer a.mu.Unlock()
		if err == nil {
			a.shown = shown
		}
		a.raising = nil
		close(done)
	}()
}

// raised waits until nobody raises shown. mu is held, but not meanwhile.
func (a *Answer) raised() {
	for a.raising != nil {
		done := a.raising
		a.mu.Unlock()
		<-done
		a.mu.Lock()
	}
}

// flush makes durable what was written, and then p, and that readers may have
// the stream as far as shown.
func (a *Answer) flush(ctx context.Context, p []byte, shown int64) error {
	return a.x.s.st.Update(ctx, func(tx store.Store) error {
		if err := store.PutJSON(ctx, tx, shownKey(a.x.n), shown); err != nil {
			return err
		}
		return a.stream.Append(tx, p)
	})
}

// Resumed reports whether an earlier run of the program was cut off in this
// attempt. Readers may have more of it than is left: who goes on with it must
// write from [Answer.Given] on what was written then, else call
// [Answer.Again].
func (a *Answer) Resumed() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.resumed
}

// Given is how many bytes of this attempt there are.
func (a *Answer) Given() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.stream.Size() - a.from
}

// Attempt is how often the answer was begun, from 1 on.
func (a *Answer) Attempt() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.attempt
}

// Again sets what was given aside as interrupted, and begins the answer anew;
// but not for ever.
func (a *Answer) Again(ctx context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.raised()
	if a.over {
		return errOver
	}
	if a.attempt >= maxAttempts {
		return fsys.E(fsys.Unavailable, fmt.Sprintf("the answer was interrupted %d times", a.attempt))
	}
	var from int64
	err := a.x.change(ctx, func(c *change) (err error) {
		c.Attempt++
		if from, err = c.part(a, CutShort, "", 0); err != nil {
			return err
		}
		c.From = from
		return store.PutJSON(ctx, c.tx, shownKey(c.Number), from+leastAhead)
	})
	if err == nil {
		a.attempt, a.from, a.shown, a.floor, a.resumed = a.attempt+1, from, from+leastAhead, 0, false
	}
	return err
}

var errOver = fsys.E(fsys.BadHandle, "the prompt has been answered")

// finish says that nothing more will come.
func (a *Answer) finish() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over = true
	a.raised()
}

// rest makes durable what there is of an answer that is cut off in order.
func (a *Answer) rest(ctx context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.flush(ctx, nil, max(a.stream.Size(), a.floor))
}

// part says what was given of a, with a newline at its end, and returns where
// that is in the stream. Where an earlier run of the program may have shown
// what is neither kept nor written again, there are blanks.
func (c *change) part(a *Answer, outcome, reason string, cost budget.Micros) (end int64, err error) {
	text := make([]byte, c.stream.Size()-a.from)
	if err := readFull(c.ctx, c.stream, text, a.from); err != nil {
		return 0, err
	}
	from, to := a.from, c.stream.Size()
	var more []byte
	switch {
	case to < a.floor && outcome != Done:
		more = append(bytes.Repeat([]byte(" "), int(a.floor-to-1)), '\n')
	case len(text) > 0 && !bytes.HasSuffix(text, []byte("\n")):
		more = []byte("\n")
	}
	if outcome == Failed { // who only reads the stream is told why nothing comes
		more = fmt.Appendf(more, "[failed: %s]\n", reason)
	}
	if err := c.stream.Append(c.tx, more); err != nil {
		return 0, err
	}
	to += int64(len(more))
	c.Size += to - from
	c.say(Line{
		Role: Assistant, Prompt: a.prompt, Author: fsys.Caller(c.x.s.opts.Name), From: &from, To: &to,
		Text: strings.ToValidUTF8(string(text), "\uFFFD"), Outcome: outcome, Reason: reason, Cost: cost,
	})
	return to, nil
}
