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
	shown int64
	floor int64 // the same of an earlier run of the program; 0: there was none
}

// What readers may have of an answer before it is on disk: as much again as
// they have, within these bounds.
const (
	leastAhead = 1 << 10
	mostAhead  = 16 << 10
)

// Write adds p to the answer. Readers have it when Write returns. It is on
// disk when that is much, and at the latest when Run has returned.
func (a *Answer) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.over:
		return 0, errOver
	case a.ctx.Err() != nil:
		return 0, context.Cause(a.ctx)
	case len(p) == 0:
		return 0, nil
	}
	end := a.stream.Size() + int64(len(p))
	if end-a.from > MaxAnswer {
		return 0, fsys.E(fsys.TooLarge, fmt.Sprintf("the answer is longer than %d MiB", MaxAnswer>>20))
	}
	if end <= a.shown {
		if err := a.stream.Buffer(p); err != nil {
			return 0, err
		}
		return len(p), nil
	}
	if err := a.flush(a.ctx, p, min(max(end-a.from, leastAhead), mostAhead)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// flush makes durable what was written, and then p, and lets readers have so
// much more than that.
func (a *Answer) flush(ctx context.Context, p []byte, ahead int64) error {
	shown := a.stream.Size() + int64(len(p)) + ahead
	err := a.x.s.st.Update(ctx, func(tx store.Store) error {
		if err := store.PutJSON(ctx, tx, shownKey(a.x.n), shown); err != nil {
			return err
		}
		return a.stream.Append(tx, p)
	})
	if err == nil {
		a.shown = shown
	}
	return err
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
}

// rest makes durable what there is of an answer that is cut off in order.
func (a *Answer) rest(ctx context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.flush(ctx, nil, max(0, a.floor-a.stream.Size()))
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
