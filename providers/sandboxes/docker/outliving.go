package docker

import (
	"context"
	"time"
)

// grace is how long a request to the engine that makes something may go on
// after its caller gave up: an answer is needed to know what there is to undo.
const grace = 10 * time.Second

// outliving returns a context that ends grace after ctx.
func outliving(ctx context.Context) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(grace, cancel) })
	return longer, func() {
		stop()
		cancel()
	}
}
