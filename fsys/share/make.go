package share

import (
	"context"
	"time"
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
