package agent

import (
	"context"

	"agent9/fsys"
	"agent9/services/transports"
	"agent9/store"
)

// Local is the transport among the agents of one daemon, by their names: in the
// sender's transaction. It finds an agent, or returns fsys.NotExist.
type Local func(ctx context.Context, name string) (*Agent, error)

var _ transports.Transport = Local(nil)

func (find Local) Reach(ctx context.Context, from, to string) (transports.Deliver, error) {
	other, err := find(ctx, to)
	if fsys.CodeOf(err) == fsys.NotExist && err != nil {
		return nil, fsys.Wrap(fsys.NotExist, "there is no agent "+to, fsys.NotExist)
	}
	if err != nil {
		return nil, err
	}
	if !other.status.Config().Accepts(from) {
		return nil, fsys.E(fsys.Permission, to+" does not accept messages from "+from)
	}
	// The closure holds the other agent, not only its inbox.
	return func(ctx context.Context, tx store.Store, m transports.Message) (string, error) {
		if other.gone.Load() {
			return "", fsys.E(fsys.NotExist, "there is no agent "+to)
		}
		return other.inbox.Deliver(ctx, tx, m)
	}, nil
}

// Receive has nothing to do: nothing comes from elsewhere.
func (Local) Receive(context.Context, transports.Transport) error { return nil }
