package inbox_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"agent9/fsys"
	"agent9/fsys/fstest"
	"agent9/services/inbox"
	"agent9/store"
	"agent9/store/mem"
)

// box is an inbox that a test works on, and the events that it noted.
type box struct {
	t      *testing.T
	st     store.Updater
	in     *inbox.Inbox
	conf   inbox.Config
	events []string
	refuse error     // what every change fails with
	now    time.Time // zero: the real one
}

func newBox(t *testing.T) *box {
	b := &box{t: t, st: mem.New()}
	b.start()
	return b
}

// start makes the inbox anew from the store, as after a crash.
func (b *box) start() {
	b.in = inbox.New(store.Sub(b.st, "inbox/"), inbox.Options{
		Config: func() inbox.Config { return b.conf },
		Now: func() time.Time {
			if b.now.IsZero() {
				return time.Now()
			}
			return b.now
		},
		Note: func(tx store.Store, event string, detail any) error {
			b.events = append(b.events, event)
			return b.refuse
		},
	})
}

func (b *box) as(who string) context.Context {
	return fsys.WithCaller(b.t.Context(), fsys.Caller(who))
}

func (b *box) trySend(who, req string) (string, error) {
	reply, err := fsys.Converse(b.as(who), b.in.Root(), "new", []byte(req))
	return strings.TrimSuffix(string(reply), "\n"), err
}

func (b *box) send(req string) string {
	b.t.Helper()
	id, err := b.trySend("bob", req)
	require.NoError(b.t, err)
	require.NotEmpty(b.t, id)
	return id
}

func (b *box) open(name string) fsys.Handle {
	b.t.Helper()
	h, err := fsys.OpenPath(b.t.Context(), b.in.Root(), name, fsys.Read)
	require.NoError(b.t, err)
	return h
}

// body reads all of an open message and returns its body.
func body(t *testing.T, h fsys.Handle) string {
	t.Helper()
	line, err := fsys.ReadAll(t.Context(), h)
	require.NoError(t, err)
	return parse(t, line).text()
}

type message struct {
	inbox.Message
	Reason string `json:"reason"`
	Since  string `json:"dead_since"`
}

func (m message) text() string {
	var s string
	json.Unmarshal(m.Body, &s)
	return s
}

func parse(t *testing.T, line []byte) message {
	t.Helper()
	var m message
	require.NoError(t, json.Unmarshal(line, &m), "%q", line)
	require.Equal(t, 1, strings.Count(string(line), "\n"))
	return m
}

// take reads next as a shell's cat does.
func (b *box) take() string {
	b.t.Helper()
	line, err := fsys.ReadFile(b.t.Context(), b.in.Root(), "next")
	require.NoError(b.t, err)
	return parse(b.t, line).text()
}

func (b *box) waiting() string {
	b.t.Helper()
	list, err := fsys.List(b.t.Context(), b.in.Root())
	require.NoError(b.t, err)
	var bodies []string
	for _, e := range list[5:] {
		line, err := fsys.ReadFile(b.t.Context(), b.in.Root(), e.Name)
		require.NoError(b.t, err)
		m := parse(b.t, line)
		require.Equal(b.t, e.Name, m.ID)
		bodies = append(bodies, m.text())
	}
	n, _, err := b.in.Depth(b.t.Context())
	require.NoError(b.t, err)
	require.Len(b.t, bodies, n)
	return strings.Join(bodies, " ")
}

func (b *box) dead() []message {
	b.t.Helper()
	list, err := fsys.List(b.t.Context(), b.in.DeadLetter())
	require.NoError(b.t, err)
	var all []message
	for _, e := range list[1:] {
		line, err := fsys.ReadFile(b.t.Context(), b.in.DeadLetter(), e.Name)
		require.NoError(b.t, err)
		all = append(all, parse(b.t, line))
	}
	return all
}

func (b *box) ctl(command string) (string, error) {
	reply, err := fsys.Converse(b.t.Context(), b.in.DeadLetter(), "ctl", []byte(command))
	return strings.TrimSpace(string(reply)), err
}

func TestEnvelope(t *testing.T) {
	b := newBox(t)
	for _, tc := range []struct{ req, body, kind, replyTo string }{
		{"plain text\n", `"plain text"`, "", ""},
		{"two\nlines & <more>\n", `"two\nlines & <more>"`, "", ""},
		{`{"body": "x"}`, `"x"`, "", ""},
		{`{"body": {"a": [1, 2]}, "type": "task", "reply_to": "m1"}`, `{"a":[1,2]}`, "task", "m1"},
		{"{\"body\":\n null}", `null`, "", ""},
	} {
		before := time.Now().Truncate(time.Millisecond)
		id := b.send(tc.req)
		line, err := fsys.ReadFile(t.Context(), b.in.Root(), id)
		require.NoError(t, err)
		m := parse(t, line)
		require.Equal(t, tc.body, string(m.Body))
		require.Equal(t, []string{id, "bob", tc.kind, tc.replyTo}, []string{m.ID, string(m.From), m.Type, m.ReplyTo})
		at, err := time.Parse("2006-01-02T15:04:05.000Z", m.Time)
		require.NoError(t, err)
		require.False(t, at.Before(before) || at.After(time.Now()), "%v", at)
		taken, err := fsys.ReadFile(t.Context(), b.in.Root(), "next")
		require.NoError(t, err)
		require.Equal(t, string(line), string(taken))
	}
	require.Equal(t, "inbox.received inbox.acknowledged", strings.Join(b.events[:2], " "))
}

func TestBadRequestsAreRefusedWithTheReason(t *testing.T) {
	b := newBox(t)
	for req, reason := range map[string]string{
		`{"body": 1, "from": "alice"}`:              "from and time are set by the server",
		`{"body": 1, "time": null}`:                 "from and time are set by the server",
		`{"body": 1, "color": "red"}`:               `unknown field "color"`,
		`{"type": "task"}`:                          "no body",
		`{"body": 1, "id": 7}`:                      "id: a string is expected, not a number",
		`{"body": 1, "id": "a/b"}`:                  "a name cannot contain /",
		`{"body": 1, "id": "next"}`:                 "an id cannot be next",
		`{"body": 1, "id": "ctl"}`:                  "an id cannot be ctl",
		`{"body": 1, "id": "a b"}`:                  "white space",
		`{"body": 1, "id": ".."}`:                   "a name cannot be ..",
		`{"body": nonsense}`:                        "invalid character",
		`[1, 2]`:                                    "to send an array",
		"caf\xe9":                                   "UTF-8",
		`{"body": "caf` + "\xe9" + `"}`:             "UTF-8",
		`{"body": 1, "id": "` + "\\u202e" + `abc"}`: "cannot be printed",
	} {
		_, err := b.trySend("bob", req)
		require.ErrorIs(t, err, fsys.Invalid, req)
		require.Contains(t, fsys.ReasonOf(err), reason, req)
	}
	_, err := b.trySend("bob", `{"body": "`+strings.Repeat("x", 1<<20)+`"}`)
	require.ErrorIs(t, err, fsys.TooLarge)
	_, err = b.trySend("bob", `{"body": 1, "id": "`+strings.Repeat("x", 256)+`"}`)
	require.ErrorIs(t, err, fsys.NameTooLong)
	require.Empty(t, b.waiting())
}

func TestIDsSortAsTheyCame(t *testing.T) {
	b := newBox(t)
	last := ""
	for i := range 200 {
		if i == 100 {
			b.start()
		}
		id := b.send("x")
		require.Greater(t, id, last)
		require.Len(t, id, 20)
		last = id
	}
}

func TestNextGivesEachMessageOnceInOrder(t *testing.T) {
	b := newBox(t)
	for _, s := range []string{"one", "two", "three"} {
		b.send(s)
	}
	require.Equal(t, "one", b.take())
	require.Equal(t, "two three", b.waiting())

	h := b.open("next")
	require.Equal(t, "two", body(t, h))
	require.Equal(t, "two three", b.waiting(), "a message that is being read still waits")
	require.NoError(t, h.Close())
	require.NoError(t, h.Close())
	require.Equal(t, "two", b.take(), "a hang-up puts it back in its place")
	require.Equal(t, "three", b.take())
	require.Empty(t, b.waiting())
}

func TestSyncTakesOnlyWhatWasReadToItsEnd(t *testing.T) {
	ctx, b := t.Context(), newBox(t)
	b.send("message")
	h := b.open("next")
	require.NoError(t, fsys.Sync(ctx, h), "before a read there is nothing to take")
	line, err := fsys.ReadFile(ctx, b.in.Root(), "head")
	require.NoError(t, err)
	size := int64(len(line))

	p := make([]byte, 5)
	read := func(off int64) (int, error) { return fsys.ReadAt(ctx, h, p, off) }
	for off := int64(0); off < size-5; off += 5 {
		n, err := read(off)
		require.NoError(t, err)
		require.Equal(t, string(line[off:off+5]), string(p[:n]))
		require.NoError(t, fsys.Sync(ctx, h))
		require.Equal(t, "message", b.waiting())
	}
	_, err = read(size - 1) // the last byte, but not all before it
	require.NoError(t, err)
	if (size-1)%5 != 0 {
		require.NoError(t, fsys.Sync(ctx, h))
		require.Equal(t, "message", b.waiting())
	}
	n, err := fsys.ReadAt(ctx, h, make([]byte, 100), size-10)
	require.NoError(t, err)
	require.Equal(t, 10, n)
	require.NoError(t, fsys.Sync(ctx, h))
	require.Empty(t, b.waiting())
	b.send("another")
	for _, off := range []int64{0, size} {
		_, err = read(off)
		require.ErrorIs(t, err, io.EOF, "one open never gives two messages")
	}
	require.NoError(t, fsys.Finish(ctx, h))
	require.Equal(t, "another", b.take())
}

func TestPartlyReadAndClosedInOrderGoesBack(t *testing.T) {
	b := newBox(t)
	b.send("one")
	b.send("two")
	h := b.open("next")
	_, err := fsys.ReadAt(t.Context(), h, make([]byte, 5), 0)
	require.NoError(t, err)
	require.Equal(t, "two", b.take(), "what one handle has is not given to another")
	require.NoError(t, fsys.Finish(t.Context(), h))
	require.Equal(t, "one", b.take())
}

func TestTakenMessageSurvivesACrash(t *testing.T) {
	b := newBox(t)
	b.send("one")
	require.Equal(t, "one", body(t, b.open("next")))
	b.start()
	require.Equal(t, "one", b.take())
	b.start()
	require.Empty(t, b.waiting())
}

func TestHeadLeavesTheMessage(t *testing.T) {
	b := newBox(t)
	id := b.send("one")
	b.send("two")
	for range 2 {
		h := b.open("head")
		require.Equal(t, "one", body(t, h))
		require.NoError(t, fsys.Finish(t.Context(), h))
	}
	h := b.open("next")
	require.Equal(t, "one", body(t, h))
	require.Equal(t, "two", body(t, b.open("head")), "head shows what nobody has taken")
	require.NoError(t, h.Close())

	require.NoError(t, b.remove(id))
	require.Equal(t, "two", body(t, b.open("head")))
	_, err := fsys.Walk(t.Context(), b.in.Root(), id)
	require.ErrorIs(t, err, fsys.NotExist)
}

func (b *box) remove(id string) error {
	n, err := fsys.Walk(b.t.Context(), b.in.Root(), id)
	if err != nil {
		return err
	}
	return fsys.Remove(b.t.Context(), n)
}

func TestRemovedWhileTaken(t *testing.T) {
	b := newBox(t)
	id := b.send("one")
	h, h2 := b.open("next"), b.open("next")
	require.Equal(t, "one", body(t, h))
	require.NoError(t, b.remove(id))
	require.ErrorIs(t, b.remove(id), fsys.NotExist)
	require.NoError(t, fsys.Finish(t.Context(), h))
	b.send("two")
	require.Equal(t, "two", body(t, h2))
	require.NoError(t, h2.Close())
	require.Equal(t, "two", b.waiting())
}

func TestWaitersAreServedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBox(t)
		const waiters = 5
		got := make([]string, waiters)
		var wg sync.WaitGroup
		for i := range waiters {
			h := b.open("next")
			wg.Go(func() {
				got[i] = body(t, h)
				fsys.Finish(t.Context(), h)
			})
			synctest.Wait() // it waits at next
			require.Empty(t, got[i])
		}
		for i := range waiters {
			b.send(fmt.Sprint(i))
			synctest.Wait()
			require.Equal(t, fmt.Sprint(i), got[i])
		}
		wg.Wait()
		require.Empty(t, b.waiting())
	})
}

func TestCancelledWaiterLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBox(t)
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error, 2)
		first, second := b.open("next"), b.open("next")
		for _, h := range []fsys.Handle{first, second} {
			go func() {
				_, err := fsys.ReadAt(ctx, h, make([]byte, 10), 0)
				failed <- err
			}()
			synctest.Wait()
		}
		var got string
		third := b.open("next")
		go func() { got = body(t, third) }()
		synctest.Wait()
		cancel()
		require.ErrorIs(t, <-failed, context.Canceled)
		require.ErrorIs(t, <-failed, context.Canceled)
		b.send("one")
		synctest.Wait()
		require.Equal(t, "one", got)
		require.NoError(t, third.Close())
		require.Equal(t, "one", body(t, first), "an interrupted handle can read again")
		require.NoError(t, first.Close())
		require.Equal(t, "one", b.waiting())
	})
}

// A client that hangs up in the middle of a blocked read takes nothing with
// it, also if the close comes before the read has returned.
func TestHangUpWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBox(t)
		h := b.open("next")
		failed := make(chan error, 1)
		go func() {
			_, err := fsys.ReadAt(t.Context(), h, make([]byte, 10), 0)
			failed <- err
		}()
		synctest.Wait()
		require.NoError(t, h.Close())
		b.send("one")
		require.ErrorIs(t, <-failed, fsys.BadHandle)
		require.Equal(t, "one", b.take())
	})
}

func TestPutBackWakesAWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBox(t)
		b.send("one")
		h := b.open("next")
		require.Equal(t, "one", body(t, h))
		var next, head string
		go func() { next = body(t, b.open("next")) }()
		synctest.Wait()
		require.Empty(t, next)
		require.NoError(t, h.Close())
		synctest.Wait()
		require.Equal(t, "one", next)
		go func() { head = body(t, b.open("head")) }()
		synctest.Wait()
		require.Empty(t, head)
		b.send("two")
		synctest.Wait()
		require.Equal(t, "two", head)
	})
}

// What a handle has got it returns at once, also to who cannot wait.
func TestReadOfWhatIsHereDoesNotWait(t *testing.T) {
	b := newBox(t)
	b.send("message")
	h := b.open("next")
	p := make([]byte, 10)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := fsys.ReadAt(gone, h, p, 0)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, "message", body(t, b.open("next")), "who does not wait takes nothing")
	b.send("another")
	n, err := fsys.ReadAt(t.Context(), h, p, 0)
	require.NoError(t, err)
	require.Equal(t, 10, n)
	n, err = fsys.ReadAt(gone, h, p, 10)
	require.NoError(t, err)
	require.Equal(t, 10, n)
}

// Sync of one copy of a descriptor does not wait for a read of another.
func TestSyncDoesNotWaitForAReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBox(t)
		h := b.open("next")
		ctx, cancel := context.WithCancel(t.Context())
		go fsys.ReadAt(ctx, h, make([]byte, 10), 0)
		synctest.Wait()
		require.NoError(t, fsys.Sync(t.Context(), h))
		cancel()
	})
}

func TestManySendersManyTakers(t *testing.T) {
	b := newBox(t)
	const senders, each, takers = 6, 40, 4
	var wg sync.WaitGroup
	for s := range senders {
		wg.Go(func() {
			for i := range each {
				if _, err := b.trySend(fmt.Sprint(s), fmt.Sprintf(`{"body": "%d"}`, i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	ctx, done := context.WithCancel(t.Context())
	var mu sync.Mutex
	seen := map[string]int{}
	left := senders * each
	var takes sync.WaitGroup
	for w := range takers {
		takes.Go(func() {
			for i := w; ; i++ {
				h, err := fsys.OpenPath(ctx, b.in.Root(), "next", fsys.Read)
				if err != nil {
					t.Error(err)
					return
				}
				line, err := fsys.ReadAll(ctx, h)
				if err != nil {
					h.Close()
					return
				}
				if i%3 == 0 { // every third hangs up, and it comes again
					h.Close()
					continue
				}
				if err := fsys.Finish(context.WithoutCancel(ctx), h); err != nil {
					t.Error(err)
				}
				var m inbox.Message
				json.Unmarshal(line, &m)
				mu.Lock()
				seen[m.ID]++
				if left--; left == 0 {
					done()
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	takes.Wait()
	done()
	require.Len(t, seen, senders*each)
	require.Empty(t, b.waiting())
}

func TestOrderPerSender(t *testing.T) {
	b := newBox(t)
	var wg sync.WaitGroup
	for s := range 4 {
		wg.Go(func() {
			for i := range 30 {
				b.trySend(fmt.Sprint(s), fmt.Sprintf("%d %03d", s, i))
			}
		})
	}
	wg.Wait()
	last := map[byte]string{}
	for range 120 {
		m := b.take()
		require.Greater(t, m, last[m[0]])
		last[m[0]] = m
	}
}

func TestAcknowledgementThatFails(t *testing.T) {
	b := newBox(t)
	b.send("one")
	h := b.open("next")
	require.Equal(t, "one", body(t, h))
	b.refuse = fsys.NoSpace
	require.ErrorIs(t, fsys.Sync(t.Context(), h), fsys.NoSpace)
	require.NoError(t, h.Close())
	_, err := b.trySend("bob", "two")
	require.ErrorIs(t, err, fsys.NoSpace)
	b.refuse = nil
	require.Equal(t, "one", b.waiting())
	require.Equal(t, "one", b.take())
}

func TestTree(t *testing.T) {
	b := newBox(t)
	b.conf = inbox.Config{Limit: 1}
	b.send("waits")
	id := b.send("dead")
	require.NoError(t, fstest.CheckTree(t.Context(), b.in.Root(), "new", "next", "head"))
	require.NoError(t, fstest.CheckTree(t.Context(), b.in.DeadLetter(), "ctl", id))
	require.Equal(t, "waits", b.waiting(), "the check changed nothing")
	info, err := b.in.Root().Stat(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 0o755, info.Perm, "entries can be removed")
}
