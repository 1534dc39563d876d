package host

import (
	"context"
	"log/slog"
	"time"

	"agent9/providers/sandboxes"
	"agent9/services/agent"
	"agent9/store"
)

// sweepTimeout is how long a provider may take for a sweep.
const sweepTimeout = 5 * time.Minute

// sweep removes the sandboxes that are in no session of any agent: what a crash
// has left, and what agents had that are no longer there. It runs behind the
// start, once.
func (h *Host) sweep(ctx context.Context) {
	for _, r := range h.opts.Sandboxes {
		ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
		err := r.Sweep(ctx, func(f sandboxes.Found) bool { return h.wanted(ctx, f) })
		cancel()
		if err != nil && ctx.Err() == nil {
			slog.Warn("sandboxes that nobody has any more may be left for the next start", "provider", r.ID(), "err", err)
		}
	}
}

// Known reports whether st, the daemon's store, has anything of the agent with
// this id.
func Known(ctx context.Context, st store.Store, id string) (bool, error) {
	page, err := st.List(ctx, dataPart+id+"/", "", 1)
	return len(page) > 0, err
}

// wanted reports whether a sandbox is some session's, or may be.
func (h *Host) wanted(ctx context.Context, f sandboxes.Found) bool {
	id, ok := agent.SandboxOwner(f.Name)
	if !ok {
		return false
	}
	wanted, err := agent.WantsSandbox(ctx, store.Sub(h.opts.Store, dataPart+id+"/"), f.Name, f.ID)
	return wanted || err != nil
}
