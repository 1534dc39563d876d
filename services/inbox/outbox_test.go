package inbox_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agent9/fsys"
	"agent9/fsys/fstest"
	"agent9/services/inbox"
	"agent9/store"
)

// post is alice's outbox, whose messages reach the inbox of bob.
type post struct {
	*box
	out *inbox.Outbox
}

func newPost(t *testing.T) *post {
	p := &post{box: newBox(t)}
	p.restart()
	return p
}

func (p *post) restart() {
	p.start()
	var err error
	p.out, err = inbox.NewOutbox(p.t.Context(), store.Sub(p.st, "outbox/"), "alice",
		func(_ context.Context, to string) (inbox.Deliver, error) {
			if to == "nobody" {
				return nil, fsys.E(fsys.NotExist, "there is no agent "+to)
			}
			return p.in.Deliver, nil
		},
		func(_ store.Store, event string, _ any) error {
			p.events = append(p.events, event)
			return p.refuse
		}, nil)
	require.NoError(p.t, err)
}

func (p *post) post(who, req string) (string, error) {
	reply, err := fsys.Converse(p.as(who), p.out.Root(), "new", []byte(req))
	return strings.TrimSuffix(string(reply), "\n"), err
}

func (p *post) sent() []string {
	p.t.Helper()
	n, err := fsys.Walk(p.t.Context(), p.out.Root(), "sent")
	require.NoError(p.t, err)
	info, err := n.Stat(p.t.Context())
	require.NoError(p.t, err)
	h, err := n.Open(p.t.Context(), fsys.Read)
	require.NoError(p.t, err)
	defer h.Close()
	b := make([]byte, info.Size)
	for at := 0; at < len(b); {
		n, err := fsys.ReadAt(p.t.Context(), h, b[at:], int64(at))
		require.NoError(p.t, err)
		at += n
	}
	if len(b) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
}

func TestOutboxDelivers(t *testing.T) {
	p := newPost(t)
	id, err := p.post("alice", `{"to": "bob", "body": {"n": 1}, "type": "task", "reply_to": "x"}`)
	require.NoError(t, err)
	line, err := fsys.ReadFile(t.Context(), p.in.Root(), id)
	require.NoError(t, err)
	m := parse(t, line)
	require.Equal(t, inbox.Message{ID: id, From: "alice", Time: m.Time, Type: "task", ReplyTo: "x", Body: json.RawMessage(`{"n":1}`)}, m.Message)
	require.NotEmpty(t, m.Time)
	require.Equal(t, []string{`{"to":"bob",` + strings.TrimSuffix(string(line), "\n")[1:]}, p.sent())

	_, err = p.post(string(fsys.Operator), `{"to": "bob", "body": "from the operator"}`)
	require.NoError(t, err)
	require.Contains(t, p.sent()[1], `"from":"alice"`)
	require.Contains(t, p.sent()[1], `"by":"operator"`)
	require.Equal(t, []string{"inbox.received", "outbox.sent", "inbox.received", "outbox.sent"}, p.events)
	require.NoError(t, fstest.CheckTree(t.Context(), p.out.Root(), "new", "sent"))
	p.restart()
	require.Len(t, p.sent(), 2)
}

func TestOutboxSendsAnIDOnce(t *testing.T) {
	p := newPost(t)
	for range 2 {
		id, err := p.post("alice", `{"to": "bob", "body": "x", "id": "m1"}`)
		require.NoError(t, err)
		require.Equal(t, "m1", id)
		p.restart()
	}
	require.Len(t, p.sent(), 1)
	require.Equal(t, "x", p.waiting())
	_, err := p.post("alice", `{"to": "carol", "body": "x", "id": "m1"}`)
	require.ErrorIs(t, err, fsys.Exist)
}

func TestOutboxRefusals(t *testing.T) {
	p := newPost(t)
	for req, code := range map[string]fsys.Code{
		"plain text":    fsys.Invalid,
		`{"body": 1}`:   fsys.Invalid,
		`{"to": "bob"}`: fsys.Invalid,
		`{"to": "bob", "body": 1, "from": "eve"}`:    fsys.Invalid,
		`{"to": "bob", "body": 1, "cc": "eve"}`:      fsys.Invalid,
		`{"to": "bob", "body": 1, "id": "new"}`:      fsys.Invalid,
		`{"to": ["bob"], "body": 1}`:                 fsys.Invalid,
		`{"to": "nobody", "body": 1, "id": "m1"}`:    fsys.NotExist,
		`{"to": "nobody", "body": 1}`:                fsys.NotExist,
		`{"to": "bob", "body": 1, "id": 7}`:          fsys.Invalid,
		`{"to": "bob", "body": "caf` + "\xe9" + `"}`: fsys.Invalid,
	} {
		_, err := p.post("alice", req)
		require.ErrorIs(t, err, code, req)
		require.NotEmpty(t, fsys.ReasonOf(err), req)
	}
	require.Empty(t, p.waiting())
	require.Empty(t, p.sent())
	id, err := p.post("alice", `{"to": "bob", "body": "x", "id": "m1"}`)
	require.NoError(t, err, "a refused id was not used up")
	require.Equal(t, "m1", id)
}

// What fails after the delivery undoes the delivery.
func TestOutboxSendsWholeOrNotAtAll(t *testing.T) {
	p := newPost(t)
	p.conf = inbox.Config{Limit: 1, Overflow: inbox.Refuse}
	_, err := p.post("alice", `{"to": "bob", "body": "one"}`)
	require.NoError(t, err)
	_, err = p.post("alice", `{"to": "bob", "body": "two"}`)
	require.ErrorIs(t, err, fsys.Busy)
	p.refuse = fsys.NoSpace
	p.conf.Limit = 2
	_, err = p.post("alice", `{"to": "bob", "body": "two"}`)
	require.ErrorIs(t, err, fsys.NoSpace)
	require.Equal(t, "one", p.waiting())
	require.Len(t, p.sent(), 1)
}
