package host_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agent9/conformance"
	"agent9/fsys"
	"agent9/services/host"
	"agent9/services/identity"
	"agent9/services/transports"
	"agent9/store"
	"agent9/store/mem"
)

// far is a transport whose other end is this one: what is sent to far:NAME comes
// back for NAME.
type far struct {
	db  store.Updater
	out chan transports.Message
}

func (f *far) Reach(_ context.Context, from, to string) (transports.Deliver, error) {
	return func(_ context.Context, tx store.Store, m transports.Message) (string, error) {
		m.From, m.ReplyTo = fsys.Caller("far:"+from), to[len("far:"):]
		store.After(tx, func() { f.out <- m })
		return m.ID, nil
	}, nil
}

func (f *far) Receive(ctx context.Context, local transports.Transport) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case m := <-f.out:
			deliver, err := local.Reach(ctx, string(m.From), m.ReplyTo)
			if err != nil {
				return err
			}
			if err := f.db.Update(ctx, func(tx store.Store) error { _, err := deliver(ctx, tx, m); return err }); err != nil {
				return err
			}
		}
	}
}

func TestTransports(t *testing.T) {
	ctx := fsys.WithCaller(t.Context(), fsys.Operator)
	db := mem.New()
	ring, err := identity.RingFromFile(ctx, store.Sub(db, host.KeyRingPart), filepath.Join(t.TempDir(), "master.key"))
	require.NoError(t, err)
	h, err := host.Open(t.Context(), host.Options{Store: db, Ring: ring, Now: time.Now, Transports: map[string]transports.Transport{"far": &far{db, make(chan transports.Message, 9)}}})
	require.NoError(t, err)
	defer h.Close(ctx)
	agents, err := fsys.WalkPath(ctx, h.Root(), "agents")
	require.NoError(t, err)
	for _, name := range []string{"alice", "bob", "carol"} {
		_, err := fsys.Mkdir(ctx, agents, name, 0o700)
		require.NoError(t, err)
	}
	require.NoError(t, fsys.WriteFile(ctx, agents, "carol/config", []byte(`{"accept": []}`)))
	arrived := func(ctx context.Context) (list []transports.Message, err error) {
		inbox, err := fsys.WalkPath(ctx, agents, "alice/inbox")
		if err != nil {
			return nil, err
		}
		entries, err := fsys.List(ctx, inbox)
		for _, e := range entries {
			if slices.Contains([]string{"new", "next", "head", "ctl", "taken"}, e.Name) {
				continue
			}
			var m transports.Message
			line, readErr := fsys.ReadFile(ctx, inbox, e.Name)
			if readErr == nil && json.Unmarshal(line, &m) == nil {
				list = append(list, m)
			}
		}
		return list, err
	}
	t.Run("local", func(t *testing.T) {
		conformance.TestTransport(t, conformance.Transport{Transport: h.Local(), Store: db, From: "bob", To: "alice", Nowhere: "dave", Closed: "carol", Arrived: arrived})
	})
	// An address of another scheme goes out by its transport, and what comes in by
	// one is a message like others.
	_, err = fsys.Converse(ctx, agents, "bob/outbox/new", []byte(`{"to": "far:alice", "body": "round", "id": "m1"}`))
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		list, err := arrived(ctx)
		return err == nil && len(list) > 0 && list[len(list)-1].From == "far:bob" && list[len(list)-1].ID == "m1"
	}, 5*time.Second, 5*time.Millisecond)
}
