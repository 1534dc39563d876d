// Package transports is what carries messages: from an agent's outbox to the
// address that it writes to, and from elsewhere into agents' inboxes. Agents of one
// daemon reach each other by name; other addresses are SCHEME:ADDRESS, each scheme
// with a transport of its own in a [Table].
package transports

import (
	"context"
	"encoding/json"
	"strings"
	"sync"

	"agent9/fsys"
	"agent9/store"
)

// A Message is what is in an inbox, and how it looks as JSON.
type Message struct {
	ID      string          `json:"id"`
	From    fsys.Caller     `json:"from"`
	Time    string          `json:"time"`
	Type    string          `json:"type,omitempty"`
	ReplyTo string          `json:"reply_to,omitempty"`
	Body    json.RawMessage `json:"body"`
}

// Deliver takes m, in tx, to the address that it was made for, and returns the ID
// that it has there. If tx is undone, m is not sent. The same ID from the same
// sender is the same message, and arrives once; an empty one is given another.
// A transport to elsewhere puts m into a queue of its own in tx, and sends it
// afterwards, again and again until it arrives or cannot.
type Deliver func(ctx context.Context, tx store.Store, m Message) (id string, err error)

// A Transport carries messages to addresses of one kind. It is safe for concurrent
// use.
type Transport interface {
	// Reach returns what takes messages of from to the address to, or refuses: no
	// such address is fsys.NotExist, one that does not take messages of from
	// fsys.Permission. It may take time, and so is asked before the transaction.
	Reach(ctx context.Context, from, to string) (Deliver, error)
	// Receive puts what comes from elsewhere into the inboxes that local reaches,
	// each message once, and returns when ctx ends, or at once if nothing can come.
	Receive(ctx context.Context, local Transport) error
}

// A Table is transports By the schemes of addresses, and Local for all addresses
// without one of them.
type Table struct {
	Local Transport
	By    map[string]Transport
}

// Reach is that of the transport for to.
func (t Table) Reach(ctx context.Context, from, to string) (Deliver, error) {
	scheme, _, _ := strings.Cut(to, ":")
	if by := t.By[scheme]; by != nil && scheme != to {
		return by.Reach(ctx, from, to)
	}
	return t.Local.Reach(ctx, from, to)
}

// Receive brings what comes from elsewhere to where Local reaches until ctx ends,
// and tells failed, which may be called concurrently, which transport ended before.
func (t Table) Receive(ctx context.Context, failed func(scheme string, err error)) {
	var all sync.WaitGroup
	for scheme, by := range t.By {
		all.Go(func() {
			if err := by.Receive(ctx, t.Local); err != nil && ctx.Err() == nil {
				failed(scheme, err)
			}
		})
	}
	all.Wait()
}
