package share

import (
	"context"
	"time"

	"agent9/fsys"
)

// madeBytes is the room that is asked for before something is made of which
// nobody knows how long it will be, such as the text of a file that is opened.
const madeBytes = 1 << 20

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
// Where there is none it waits up to a second. Unlike Make it lets nobody go on
// without, as what is written and not read stays.
func (p *Part) More(ctx context.Context, kind fsys.Kind, h fsys.Handle, write bool) (done func(), err error) {
	message, holds := kind == fsys.Message, fsys.Held(h) > 0
	if p == nil || write && !message && !holds || !write && !(message && holds) {
		return func() {}, nil
	}
	room := int64(madeBytes)
	if p.Limit > 0 {
		room = min(room, p.Limit/64)
	}
	if err := p.Wait(ctx, Files, room); err != nil {
		return nil, err
	}
	return func() { p.Give(Files, room) }, nil
}
