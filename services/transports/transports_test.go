package transports_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"agent9/conformance"
	"agent9/fsys"
	"agent9/services/transports"
	"agent9/store"
	"agent9/store/mem"
)

// loop is a transport to a list, with what a broken one does.
type loop struct {
	mu   sync.Mutex
	list []transports.Message

	early, twice, loses, backwards, forgets bool
}

func (l *loop) Reach(_ context.Context, from, to string) (transports.Deliver, error) {
	if to == "far:nobody" {
		return nil, fsys.E(fsys.NotExist, "there is no "+to)
	}
	return func(_ context.Context, tx store.Store, m transports.Message) (string, error) {
		if m.ID == "" {
			m.ID = string(m.Body)
		}
		if l.early {
			l.put(m)
		} else {
			store.After(tx, func() { l.put(m) })
		}
		return m.ID, nil
	}, nil
}

func (l *loop) put(m transports.Message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := slices.ContainsFunc(l.list, func(o transports.Message) bool { return o.ID == m.ID })
	switch {
	case known && !l.twice, l.loses && strings.Contains(string(m.Body), "many 3"):
	case l.backwards:
		l.list = append([]transports.Message{m}, l.list...)
	default:
		if l.forgets {
			m.ReplyTo = ""
		}
		l.list = append(l.list, m)
	}
}

func (l *loop) Receive(ctx context.Context, local transports.Transport) error {
	return errors.New("the line is cut")
}

func (l *loop) arrived(context.Context) ([]transports.Message, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.list), nil
}

// The suite takes what is right, and finds what is not.
func TestSuite(t *testing.T) {
	for want, l := range map[string]*loop{
		"": {},
		"a message of a transaction that was undone has arrived": {early: true},
		"sent three times, arrived 3 times":                      {twice: true},
		"sent at once have arrived":                              {loses: true},
		"arrive in another order":                                {backwards: true},
		"a message arrived as":                                   {forgets: true},
	} {
		err := conformance.CheckTransport(t.Context(), conformance.Transport{
			Transport: l, Store: mem.New(), From: "bob", To: "far:alice", Nowhere: "far:nobody", Arrived: l.arrived, Bound: 100 * time.Millisecond,
		})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestTable(t *testing.T) {
	local, far := &loop{}, &loop{}
	table := transports.Table{Local: local, By: map[string]transports.Transport{"far": far}}
	db := mem.New()
	for _, to := range []string{"alice", "far", "near:alice", "far:alice"} {
		deliver, err := table.Reach(t.Context(), "bob", to)
		if err == nil {
			err = db.Update(t.Context(), func(tx store.Store) error {
				_, err := deliver(t.Context(), tx, transports.Message{ID: to})
				return err
			})
		}
		if err != nil {
			t.Errorf("%s: %v", to, err)
		}
	}
	if len(local.list) != 3 || len(far.list) != 1 || far.list[0].ID != "far:alice" {
		t.Errorf("local has %+v, and far %+v", local.list, far.list)
	}
	var failed []string
	table.Receive(t.Context(), func(scheme string, err error) { failed = append(failed, scheme+": "+err.Error()) })
	if len(failed) != 1 || failed[0] != "far: the line is cut" {
		t.Errorf("failed: %q", failed)
	}
}
