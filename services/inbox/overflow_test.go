package inbox_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agent9/fsys"
	"agent9/services/inbox"
	"agent9/store"
	"agent9/store/mem"
)

func TestOverflowGoesToDeadLetter(t *testing.T) {
	b := newBox(t)
	b.conf = inbox.Config{Limit: 2}
	b.send("one")
	b.send("two")
	id := b.send("three")
	require.Equal(t, "one two", b.waiting())
	dead := b.dead()
	require.Len(t, dead, 1)
	require.Equal(t, []string{id, "three", "the inbox is full"}, []string{dead[0].ID, dead[0].text(), dead[0].Reason})
	require.NotEmpty(t, dead[0].Since)
	_, err := fsys.Walk(t.Context(), b.in.Root(), id)
	require.ErrorIs(t, err, fsys.NotExist, "it does not wait")
	require.Contains(t, b.events, "inbox.deadlettered")

	b.conf.Limit = 3
	b.send("four")
	require.Equal(t, "one two four", b.waiting(), "the limit acts at once")
}

func TestFullDeadLetterRefuses(t *testing.T) {
	b := newBox(t)
	b.conf = inbox.Config{Limit: 1, DeadLimit: 40}
	for range 1 + 40 {
		b.send("x")
	}
	_, err := fsys.OpenPath(t.Context(), b.in.Root(), "new", fsys.Write)
	require.ErrorIs(t, err, fsys.Busy, "known at open")
	_, n, err := b.in.Depth(t.Context())
	require.NoError(t, err)
	require.Equal(t, 40, n)
	b.take()
	b.send("fits")
}

// A limit of deadletter that is lowered by much is reached in steps, if what is there may be
// dropped; else nothing of it is.
func TestDeadLetterDropsTheOldest(t *testing.T) {
	b := newBox(t)
	b.conf = inbox.Config{Limit: 1, DeadLimit: 2000}
	for i := range 1 + 1500 {
		b.send(fmt.Sprint(i))
	}
	depth := func() int {
		t.Helper()
		_, n, err := b.in.Depth(t.Context())
		require.NoError(t, err)
		require.Len(t, b.dead(), n)
		return n
	}
	b.conf.DeadLimit = 100
	_, err := fsys.OpenPath(t.Context(), b.in.Root(), "new", fsys.Write)
	require.ErrorIs(t, err, fsys.Busy)
	require.Equal(t, 1500, depth(), "nothing is lost unasked")
	b.conf.DropDead = true
	for _, want := range []int{1500 - 512 + 1, 1500 - 2*512 + 2, 100, 100} {
		b.send("more")
		require.Equal(t, want, depth())
	}
	require.Contains(t, b.events, "deadletter.dropped")
	require.Equal(t, "more", b.dead()[99].text())
	require.Equal(t, "1405", b.dead()[0].text())
}

func TestOverflowDropsTheOldest(t *testing.T) {
	b := newBox(t)
	b.conf = inbox.Config{Limit: 2, Overflow: inbox.DropOldest}
	for _, s := range []string{"one", "two", "three"} {
		b.send(s)
	}
	require.Equal(t, "two three", b.waiting())
	h := b.open("next")
	require.Equal(t, "two", body(t, h))
	b.send("four")
	require.Equal(t, "two four", b.waiting(), "what is being read is not dropped")
	h2 := b.open("next")
	require.Equal(t, "four", body(t, h2))
	_, err := b.trySend("bob", "five")
	require.ErrorIs(t, err, fsys.Busy)
	require.NoError(t, h.Close())
	require.NoError(t, h2.Close())
	b.conf.Limit = 1
	b.send("six")
	require.Equal(t, "six", b.waiting(), "a lower limit is kept too")
	require.Empty(t, b.dead())
	require.Contains(t, b.events, "inbox.dropped")
}

func TestOverflowRefuses(t *testing.T) {
	b := newBox(t)
	b.conf = inbox.Config{Limit: 1, Overflow: inbox.Refuse}
	early, err := fsys.OpenPath(t.Context(), b.in.Root(), "new", fsys.Write)
	require.NoError(t, err)
	b.send("one")
	_, err = fsys.OpenPath(t.Context(), b.in.Root(), "new", fsys.Write)
	require.ErrorIs(t, err, fsys.Busy, "known at open")
	_, err = fsys.WriteAt(t.Context(), early, []byte(`{"body": "two"}`), 0)
	require.ErrorIs(t, err, fsys.Busy, "known at the write")
	require.Contains(t, fsys.ReasonOf(err), "full")
	require.Equal(t, "one", b.waiting())
	b.take()
	b.send("two")
}

func TestAnIDNamesOneMessage(t *testing.T) {
	b := newBox(t)
	b.conf = inbox.Config{Limit: 1}
	again := func(id string) {
		t.Helper()
		events := len(b.events)
		h, err := fsys.OpenPath(b.as("bob"), b.in.Root(), "new", fsys.Read|fsys.Write)
		require.NoError(t, err)
		_, err = fsys.WriteAt(t.Context(), h, []byte(`{"id": "`+id+`", "body": "again"}`), 0)
		require.NoError(t, err)
		reply, err := fsys.ReadAll(t.Context(), h)
		require.NoError(t, err)
		require.Equal(t, id+"\n", string(reply))
		require.Len(t, b.events, events, "nothing happened")
		_, err = b.trySend("eve", `{"id": "`+id+`", "body": "again"}`)
		require.ErrorIs(t, err, fsys.Exist, "an id is not another sender's to take")
	}
	require.Equal(t, "m-1", b.send(`{"id": "m-1", "body": "one"}`))
	again("m-1")
	b.send(`{"id": "m-2", "body": "two"}`)
	again("m-2") // in deadletter
	require.Equal(t, "one", b.waiting())
	require.Len(t, b.dead(), 1)
	require.Equal(t, "one", b.take())
	b.start()
	again("m-1") // acknowledged
	_, err := b.ctl("discard m-2")
	require.NoError(t, err)
	again("m-2") // discarded
	require.Empty(t, b.waiting())
}

func TestOldIDsAreForgotten(t *testing.T) {
	b := newBox(t)
	const taken, remembered = 1024, 4096 // an id is known as long as its message can be had back, too
	b.send(`{"id": "first", "body": "x"}`)
	b.take()
	for i := range taken + remembered {
		if i == taken+remembered-1 {
			b.send(`{"id": "first", "body": "again"}`)
			require.Empty(t, b.waiting(), "still remembered")
		}
		require.NoError(t, b.remove(b.send(fmt.Sprintf(`{"id": "%d", "body": "x"}`, i))))
	}
	b.send(`{"id": "first", "body": "anew"}`)
	require.Equal(t, "anew", b.take())
	page, err := b.st.List(t.Context(), "", "", 5*remembered)
	require.NoError(t, err)
	require.Less(t, len(page), 2*remembered+3*taken+5, "memory is bounded")
}

func TestDeadLetterCommands(t *testing.T) {
	b := newBox(t)
	b.conf = inbox.Config{Limit: 1}
	var ids []string
	for _, s := range []string{"waits", "a", "b", "c", "d"} {
		ids = append(ids, b.send(s))
	}
	_, err := b.ctl("replay " + ids[1])
	require.ErrorIs(t, err, fsys.Busy)
	b.conf.Limit = 3
	reply, err := b.ctl("replay " + ids[2])
	require.NoError(t, err)
	require.Equal(t, "1", reply)
	require.Equal(t, "waits b", b.waiting())

	_, err = b.ctl("replay all")
	require.ErrorIs(t, err, fsys.Busy)
	require.Contains(t, fsys.ReasonOf(err), "1 replayed, 2 left")
	require.Equal(t, "waits b a", b.waiting())
	b.conf.Limit = 10
	_, err = b.ctl("discard " + ids[3])
	require.NoError(t, err)
	reply, err = b.ctl("replay all")
	require.NoError(t, err)
	require.Equal(t, "1", reply)
	require.Equal(t, "waits b a d", b.waiting())
	require.Empty(t, b.dead())
	require.Equal(t, "waits", b.take())

	b.conf.Limit = 1
	ids = []string{b.send("e"), b.send("f"), b.send("g")}
	n, err := fsys.Walk(t.Context(), b.in.DeadLetter(), ids[0])
	require.NoError(t, err)
	require.NoError(t, fsys.Remove(t.Context(), n))
	reply, err = b.ctl("discard all")
	require.NoError(t, err)
	require.Equal(t, "2", reply)
	require.Empty(t, b.dead())

	for command, code := range map[string]fsys.Code{
		"replay": fsys.Invalid, "revive x": fsys.Invalid, "replay a b": fsys.Invalid,
		"replay " + ids[0]: fsys.NotExist, "discard nobody": fsys.NotExist,
	} {
		_, err := b.ctl(command)
		require.ErrorIs(t, err, code, command)
	}
	text, err := fsys.ReadFile(t.Context(), b.in.DeadLetter(), "ctl")
	require.NoError(t, err)
	require.Contains(t, string(text), "replay ID|all\t")
	require.Contains(t, string(text), "\ndiscard ID|all\t")
	for _, e := range []string{"inbox.replayed", "inbox.discarded"} {
		require.True(t, slices.Contains(b.events, e), "%s in %s", e, strings.Join(b.events, " "))
	}
}

// A gauge measures how many events come of one transaction.
type gauge struct {
	store.Updater
	b    *box
	most int
}

func (g *gauge) Update(ctx context.Context, f func(tx store.Store) error) error {
	before := len(g.b.events)
	err := g.Updater.Update(ctx, f)
	g.most = max(g.most, len(g.b.events)-before)
	return err
}

// TestALowerLimitIsReachedInSteps lowers the limit by more messages than others
// should have to wait for.
func TestALowerLimitIsReachedInSteps(t *testing.T) {
	const many = 1500
	b := &box{t: t}
	g := &gauge{Updater: mem.New(), b: b}
	b.st = g
	b.start()
	b.conf = inbox.Config{Limit: many, Overflow: inbox.DropOldest}
	for range many {
		b.send("first")
	}
	b.conf.Limit = 10
	for i := range 5 {
		b.send(fmt.Sprint(i))
	}
	require.Equal(t, "first first first first first 0 1 2 3 4", b.waiting())
	require.Less(t, g.most, many/2)
}

func TestReplayWakesAWaiter(t *testing.T) {
	b := newBox(t)
	b.conf = inbox.Config{Limit: 1}
	b.send("one")
	b.send("two")
	require.Equal(t, "one", b.take())
	got := make(chan string)
	go func() { got <- b.take() }()
	_, err := b.ctl("replay all")
	require.NoError(t, err)
	require.Equal(t, "two", <-got)
}
