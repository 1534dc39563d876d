package mcp

import (
	"context"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"agent9/fsys"
	"agent9/fsys/share"
)

// follows are the streams that clients of a server have subscribed to, by URI.
type follows struct {
	mu  sync.Mutex
	all map[string]*follow
}

// A follow is a stream that is watched for as long as there are subscribers,
// and the server lives.
type follow struct {
	subscribers int
	end         context.CancelFunc
}

// maxFollows is how many streams a server watches at once.
const maxFollows = 100

// followBytes is about what a follow takes.
const followBytes = usualBytes + 8<<10

func (t *tree) subscribe(ctx context.Context, req *sdk.SubscribeRequest) error {
	uri := req.Params.URI
	p, _, err := placeOf(uri)
	if err != nil {
		return told(ctx, uri, err)
	}
	node, info, err := t.look(ctx, p)
	if err == nil && info.Kind != fsys.Stream {
		err = fsys.E(fsys.Unsupported, "only a stream reports changes, and this is a "+info.Kind.String())
	}
	if err != nil {
		return told(ctx, p, err)
	}
	f := &t.follows
	f.mu.Lock()
	defer f.mu.Unlock()
	if known := f.all[uri]; known != nil {
		known.subscribers++
		return nil
	}
	if len(f.all) == maxFollows {
		return told(ctx, p, fsys.E(fsys.Busy, "too many subscriptions; end some"))
	}
	h, err := t.open(ctx, node, fsys.Read)
	if err != nil {
		return told(ctx, p, err)
	}
	if !t.part.Reserve(share.Files, followBytes) {
		h.Close()
		return told(ctx, p, share.ErrFull)
	}
	life, end := context.WithCancel(t.life)
	if f.all == nil {
		f.all = map[string]*follow{}
	}
	f.all[uri] = &follow{1, end}
	go func() { // until end
		defer t.part.Give(share.Files, followBytes)
		defer h.Close()
		t.tell(life, uri, node, h, info.Size)
	}()
	return nil
}

func (t *tree) unsubscribe(_ context.Context, req *sdk.UnsubscribeRequest) error {
	f := &t.follows
	f.mu.Lock()
	defer f.mu.Unlock()
	known := f.all[req.Params.URI]
	if known == nil {
		return nil
	}
	if known.subscribers--; known.subscribers == 0 {
		known.end()
		delete(f.all, req.Params.URI)
	}
	return nil
}

// tell says each time that more is in the stream than at off. Of a stream that
// begins anew for each open it says so once, and then reads no further: that
// could take away what was read.
func (t *tree) tell(ctx context.Context, uri string, node fsys.Node, h fsys.Handle, off int64) {
	b := make([]byte, usualBytes)
	for {
		n, err := fsys.ReadAt(ctx, h, b, off)
		if ctx.Err() != nil {
			return
		}
		off += int64(n)
		t.server.ResourceUpdated(ctx, &sdk.ResourceUpdatedNotificationParams{URI: uri})
		if n == 0 || err != nil {
			return
		}
		if info, err := node.Stat(ctx); err != nil || info.Size < off {
			return
		}
	}
}
