package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"agent9/fsys"
	"agent9/services/transports"
	"agent9/store"
)

// Transport is a transport of messages under test.
type Transport struct {
	transports.Transport
	Store store.Updater // in whose transactions messages are sent
	From  string        // who sends
	To    string        // an address that takes messages of From
	// Nowhere is an address that does not exist, and Closed one that does not take
	// messages of From; empty is a transport that cannot tell.
	Nowhere, Closed string
	// Arrived returns what has arrived at To, oldest first.
	Arrived func(ctx context.Context) ([]transports.Message, error)
	// Bound is how soon a message must arrive; 0 means 5 s.
	Bound time.Duration
}

// TestTransport checks that a transport keeps the contract of
// transports.Transport. What arrived before stays.
func TestTransport(t *testing.T, c Transport) {
	if err := CheckTransport(t.Context(), c); err != nil {
		t.Error(err)
	}
}

// CheckTransport is TestTransport without a test around it: it returns every
// finding, joined into one error.
func CheckTransport(ctx context.Context, c Transport) error {
	if c.Bound == 0 {
		c.Bound = 5 * time.Second
	}
	var errs []error
	for _, rule := range []struct {
		name  string
		check func(Transport, context.Context) error
	}{
		{"refusals", Transport.refusals},
		{"as it was sent", Transport.asSent},
		{"in order", Transport.inOrder},
		{"once", Transport.once},
		{"undone", Transport.undone},
		{"many at once", Transport.manyAtOnce},
	} {
		if err := rule.check(c, ctx); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", rule.name, err))
		}
	}
	return errors.Join(errs...)
}

// message has a body that no other has.
func (c Transport) message(id, text string) transports.Message {
	body, _ := json.Marshal(text + " " + fsys.Stamp(time.Now())) // of a text there always is
	return transports.Message{ID: id, From: fsys.Caller(c.From), Time: fsys.Stamp(time.Now()), Type: "test", ReplyTo: "before", Body: body}
}

var errUndo = errors.New("undone")

// send sends messages in one transaction, which ends with err.
func (c Transport) send(ctx context.Context, end error, list ...transports.Message) error {
	deliver, err := c.Reach(ctx, c.From, c.To)
	if err != nil {
		return fmt.Errorf("Reach: %w", err)
	}
	err = c.Store.Update(ctx, func(tx store.Store) error {
		for _, m := range list {
			if _, err := deliver(ctx, tx, m); err != nil {
				return fmt.Errorf("Deliver: %w", err)
			}
		}
		return end
	})
	if end != nil && errors.Is(err, end) {
		return nil
	}
	return err
}

// wait returns what has arrived when done says that it is enough, or after Bound.
func (c Transport) wait(ctx context.Context, done func([]transports.Message) bool) ([]transports.Message, error) {
	ctx, cancel := context.WithTimeout(ctx, c.Bound)
	defer cancel()
	for {
		list, err := c.Arrived(ctx)
		if err != nil || done(list) {
			return list, err
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return list, nil
		}
	}
}

func index(list []transports.Message, m transports.Message) int {
	return slices.IndexFunc(list, func(o transports.Message) bool { return string(o.Body) == string(m.Body) })
}

func (c Transport) refusals(ctx context.Context) error {
	for to, code := range map[string]fsys.Code{c.Nowhere: fsys.NotExist, c.Closed: fsys.Permission} {
		if to == "" {
			continue
		}
		if _, err := c.Reach(ctx, c.From, to); err == nil || fsys.CodeOf(err) != code || fsys.ReasonOf(err) == "" {
			return fmt.Errorf("%s: got %v, want %v and a reason", to, err, code)
		}
	}
	return nil
}

func (c Transport) asSent(ctx context.Context) error {
	m := c.message("", "as it was sent")
	if err := c.send(ctx, nil, m); err != nil {
		return err
	}
	list, err := c.wait(ctx, func(list []transports.Message) bool { return index(list, m) >= 0 })
	if err != nil {
		return err
	}
	i := index(list, m)
	if i < 0 {
		return fmt.Errorf("a message has not arrived within %v", c.Bound)
	}
	got := list[i]
	if m.ID = got.ID; got.ID == "" || got.From != m.From || got.Time != m.Time || got.Type != m.Type || got.ReplyTo != m.ReplyTo {
		return fmt.Errorf("a message arrived as %+v, and was %+v", got, m)
	}
	return nil
}

func (c Transport) inOrder(ctx context.Context) error {
	one, two, three := c.message("", "one"), c.message("", "two"), c.message("", "three")
	if err := errors.Join(c.send(ctx, nil, one), c.send(ctx, nil, two, three)); err != nil {
		return err
	}
	list, err := c.wait(ctx, func(list []transports.Message) bool { return index(list, three) >= 0 })
	if err == nil && (index(list, one) < 0 || index(list, one) > index(list, two) || index(list, two) > index(list, three)) {
		err = errors.New("messages of one sender arrive in another order")
	}
	return err
}

// last sends one more message, and returns what has arrived with it.
func (c Transport) last(ctx context.Context) ([]transports.Message, error) {
	m := c.message("", "the last")
	if err := c.send(ctx, nil, m); err != nil {
		return nil, err
	}
	return c.wait(ctx, func(list []transports.Message) bool { return index(list, m) >= 0 })
}

func (c Transport) once(ctx context.Context) error {
	m := c.message(fmt.Sprint("id-", time.Now().UnixNano()), "once")
	if err := errors.Join(c.send(ctx, nil, m), c.send(ctx, nil, m, m)); err != nil {
		return err
	}
	list, err := c.last(ctx)
	n := 0
	for _, o := range list {
		if o.ID == m.ID {
			n++
		}
	}
	if err == nil && n != 1 {
		err = fmt.Errorf("a message with one ID, sent three times, arrived %d times", n)
	}
	return err
}

func (c Transport) undone(ctx context.Context) error {
	m := c.message("", "undone")
	if err := c.send(ctx, errUndo, m); err != nil {
		return err
	}
	list, err := c.last(ctx)
	if err == nil && index(list, m) >= 0 {
		err = errors.New("a message of a transaction that was undone has arrived")
	}
	return err
}

func (c Transport) manyAtOnce(ctx context.Context) error {
	sent := make([]transports.Message, 8)
	findings := make(chan error, len(sent))
	for i := range sent {
		sent[i] = c.message("", fmt.Sprint("many ", i))
		go func() { findings <- c.send(ctx, nil, sent[i]) }()
	}
	var errs []error
	for range sent {
		errs = append(errs, <-findings)
	}
	missing := func(list []transports.Message) bool {
		return slices.ContainsFunc(sent, func(m transports.Message) bool { return index(list, m) < 0 })
	}
	list, err := c.wait(ctx, func(list []transports.Message) bool { return !missing(list) })
	if err == nil && missing(list) {
		err = errors.New("not all messages that were sent at once have arrived")
	}
	return errors.Join(append(errs, err)...)
}
