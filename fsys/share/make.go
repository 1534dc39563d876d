package share

import (
	"context"
	"time"

	"agent9/fsys"
)

// madeBytes is the room that is asked for before something is made of which
// nobody knows how long it will be, such as the text of a file that is opened.
const madeBytes = 1 << 20

// actsOn is about how many times the bytes of a request are in memory while it is
// decoded, looked at and stored, besides what it was received in.
const actsOn = 6

// Make takes room for something that is about to be made, until done. Where
// there is none, one at a time of a caller goes on without, so that who has
// taken much can still look; the others wait up to a second for that.
func (p *Part) Make(ctx context.Context) (done func(), err error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if p.Reserve(Files, madeBytes) {
		return func() { p.Give(Files, madeBytes) }, nil
	}
	p.settling.Lock()
	of := p.share
	p.settling.Unlock()
	if of == nil {
		return func() {}, nil
	}
	timeout := time.NewTimer(maxWait)
	defer timeout.Stop()
	select {
	case of.turn <- struct{}{}:
		return func() { <-of.turn }, nil
	case <-timeout.C:
		return nil, ErrFull
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// More takes room for what h, a file of this kind, may come to keep, until done: by
// a write to a Message file, or to what keeps something already, or by a read that
// has what was written to a Message file answered.
// n is how many bytes are written; 0 is a read. Where there is no room it waits up to
// a second. Unlike Make it lets nobody go on without, as what is written and not
// read stays.
func (p *Part) More(ctx context.Context, kind fsys.Kind, h fsys.Handle, n int) (done func(), err error) {
	held, message := fsys.Held(h), kind == fsys.Message
	if p == nil || n > 0 && !message && held == 0 || n == 0 && !(message && held > 0) {
		return func() {}, nil
	}
	room := madeBytes + actsOn*(held+int64(n))
	if p.Limit > 0 && room > p.Limit/8 { // then the part's share of it is for all that it keeps
		room = min(room, p.Limit/64)
	}
	if err := p.Wait(ctx, Files, room); err != nil {
		return nil, err
	}
	return func() { p.Give(Files, room) }, nil
}
