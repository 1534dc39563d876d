package logs_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"agent9/fsys"
	"agent9/fsys/fstest"
	"agent9/services/logs"
	"agent9/store"
	"agent9/store/mem"
)

func open(t *testing.T, st store.Updater, opt logs.Options) *logs.Logs {
	t.Helper()
	l, err := logs.Open(t.Context(), store.Sub(st, "logs/"), opt)
	require.NoError(t, err)
	return l
}

// lines returns the first n lines of a stream, or all of a file.
func lines(t *testing.T, l *logs.Logs, name string, n int) []string {
	t.Helper()
	h, err := fsys.OpenPath(t.Context(), l.Root(), name, fsys.Read)
	require.NoError(t, err)
	defer h.Close()
	return more(t, h, n)
}

func more(t *testing.T, h fsys.Handle, n int) []string {
	t.Helper()
	var all []byte
	for strings.Count(string(all), "\n") < n {
		p := make([]byte, 700)
		m, err := fsys.ReadAt(t.Context(), h, p, int64(len(all)))
		if fsys.IsEOF(err) {
			break
		}
		require.NoError(t, err)
		all = append(all, p[:m]...)
	}
	if len(all) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(all), "\n"), "\n")
}

type detail struct {
	N int `json:"n"`
}

func TestEventsAreFlatLines(t *testing.T) {
	l := open(t, mem.New(), logs.Options{})
	before := time.Now().Truncate(time.Millisecond)
	require.NoError(t, l.Event(t.Context(), "a.b", detail{7}))
	require.NoError(t, l.Event(t.Context(), "bare", nil))
	require.NoError(t, l.Event(t.Context(), "empty", struct{}{}))
	require.ErrorIs(t, l.Event(t.Context(), "list", []int{1}), fsys.Internal)
	got := lines(t, l, "trajectory", 3)
	require.Len(t, got, 3)
	for i, rest := range []string{`,"event":"a.b","n":7}`, `,"event":"bare"}`, `,"event":"empty"}`} {
		var e struct{ Time string }
		require.NoError(t, json.Unmarshal([]byte(got[i]), &e))
		require.Equal(t, `{"time":"`+e.Time+`"`+rest, got[i])
		at, err := time.Parse("2006-01-02T15:04:05.000Z", e.Time)
		require.NoError(t, err)
		require.False(t, at.Before(before) || at.After(time.Now()))
	}
}

func TestNoteIsPartOfTheTransaction(t *testing.T) {
	st := mem.New()
	var told []string
	l := open(t, st, logs.Options{OnEvent: func(line []byte) { told = append(told, string(line)) }})
	other := store.Sub(st, "other/")
	for _, end := range []error{fsys.Busy, nil} {
		err := other.Update(t.Context(), func(tx store.Store) error {
			require.NoError(t, l.Note(tx, "one", nil))
			require.NoError(t, l.Note(tx, "two", nil))
			require.Empty(t, told)
			return end
		})
		require.ErrorIs(t, err, end)
	}
	require.Len(t, told, 2)
	require.Equal(t, strings.Join(told, ""), strings.Join(lines(t, l, "trajectory", 2), "\n")+"\n")
	require.Contains(t, told[0], `"one"`)
	require.EqualValues(t, len(told[0])+len(told[1]), size(t, l, "trajectory"))
}

func size(t *testing.T, l *logs.Logs, name string) int64 {
	t.Helper()
	n, err := fsys.Walk(t.Context(), l.Root(), name)
	require.NoError(t, err)
	info, err := n.Stat(t.Context())
	require.NoError(t, err)
	return info.Size
}

func TestTraceFollowsFromItsOpen(t *testing.T) {
	l := open(t, mem.New(), logs.Options{})
	require.NoError(t, l.Event(t.Context(), "before", nil))
	h, err := fsys.OpenPath(t.Context(), l.Root(), "trace", fsys.Read)
	require.NoError(t, err)
	got := make(chan []string)
	go func() { got <- more(t, h, 2) }()
	require.NoError(t, l.Event(t.Context(), "during", nil))
	require.NoError(t, l.Event(t.Context(), "after", nil))
	two := <-got
	require.Contains(t, two[0], "during")
	require.Contains(t, two[1], "after")
}

func TestRecentIsTheLast512(t *testing.T) {
	st := mem.New()
	l := open(t, st, logs.Options{})
	require.Empty(t, lines(t, l, "recent", 1))
	add := func(from, to int) {
		require.NoError(t, st.Update(t.Context(), func(tx store.Store) error {
			for i := from; i < to; i++ {
				require.NoError(t, l.Note(tx, "n", detail{i}))
			}
			return nil
		}))
	}
	check := func(l *logs.Logs, first, last int) {
		t.Helper()
		got := lines(t, l, "recent", 10_000)
		require.Len(t, got, last-first+1)
		require.Contains(t, got[0], fmt.Sprintf(`"n":%d}`, first))
		require.Contains(t, got[len(got)-1], fmt.Sprintf(`"n":%d}`, last))
	}
	add(0, 511)
	check(l, 0, 510)
	add(511, 512)
	check(l, 0, 511)
	add(512, 513)
	check(l, 1, 512)
	add(513, 5000)
	check(l, 4488, 4999)
	check(open(t, st, logs.Options{}), 4488, 4999)
}

func TestRecentOfLongLinesIsBoundedAndWhole(t *testing.T) {
	l := open(t, mem.New(), logs.Options{})
	for i := range 30 {
		require.NoError(t, l.Event(t.Context(), "long", struct {
			N    int    `json:"n"`
			Text string `json:"text"`
		}{i, strings.Repeat("x", 100_000)}))
	}
	got := lines(t, l, "recent", 30)
	require.InDelta(t, 10, len(got), 1)
	require.Contains(t, got[len(got)-1], `"n":29,`)
	for _, line := range got {
		require.True(t, json.Valid([]byte(line)))
	}
}

func TestEverythingSurvivesARestart(t *testing.T) {
	st := mem.New()
	l := open(t, st, logs.Options{})
	start := time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.FixedZone("", 3600))
	require.NoError(t, l.Event(t.Context(), "one", nil))
	require.NoError(t, st.Update(t.Context(), func(tx store.Store) error {
		return l.Tick(tx, logs.Tick{ID: "1", Cause: "message", Message: "m", Attempt: 1, Start: start, Duration: 1500 * time.Millisecond, Outcome: "done", CostMicroUSD: 12})
	}))
	l = open(t, st, logs.Options{})
	require.NoError(t, l.Event(t.Context(), "two", nil))
	got := lines(t, l, "trajectory", 2)
	require.Contains(t, got[0], "one")
	require.Contains(t, got[1], "two")
	require.Equal(t, []string{`{"id":"1","cause":"message","message":"m","attempt":1,"start":"2026-01-02T02:04:05.678Z",` +
		`"duration_ms":1500,"outcome":"done","cost_microusd":12}`}, lines(t, l, "ticks", 2))
}

func TestTicksGrowsAndHasAnEnd(t *testing.T) {
	st := mem.New()
	l := open(t, st, logs.Options{})
	tick := func(id string) {
		require.NoError(t, st.Update(t.Context(), func(tx store.Store) error { return l.Tick(tx, logs.Tick{ID: id}) }))
	}
	tick("1")
	h, err := fsys.OpenPath(t.Context(), l.Root(), "ticks", fsys.Read)
	require.NoError(t, err)
	one := size(t, l, "ticks")
	require.Len(t, more(t, h, 9), 1)
	tick("2")
	require.Len(t, more(t, h, 9), 2, "tail -f sees what comes")
	require.Equal(t, 2*one, size(t, l, "ticks"))
}

func TestRefusalsCanBeRead(t *testing.T) {
	st := mem.New()
	var told int
	l := open(t, st, logs.Options{OnEvent: func([]byte) { told++ }})
	ctx, cancel := context.WithCancel(fsys.WithCaller(t.Context(), "bob"))
	l.Refused(ctx, "/inbox/new", "write", fsys.E(fsys.Busy, "the inbox is full"))
	cancel()
	l.Refused(ctx, "/a\nb", "open", fsys.Permission)
	got := lines(t, l, "errors", 2)
	require.Contains(t, got[0], `,"path":"/inbox/new","op":"write","code":"busy","reason":"the inbox is full","by":"bob"}`)
	require.Contains(t, got[1], `,"path":"/a\nb","op":"open","code":"forbidden","reason":"permission denied","by":"bob"}`)
	require.Equal(t, 2, told, "a refusal is an event")
	require.Contains(t, lines(t, l, "trajectory", 2)[1], `"event":"refused","path":"/a\nb","op":"open"`)
	b, err := fsys.ReadFile(ctx, l.Root(), "errors")
	require.NoError(t, err, "a read of all ends")
	require.Equal(t, 2, strings.Count(string(b), "\n"))
	require.Equal(t, got, lines(t, open(t, st, logs.Options{}), "errors", 2))

	require.NoError(t, st.Close())
	l.Refused(t.Context(), "/x", "open", fsys.Permission) // has nobody to tell, and does not panic
}

// What one token is refused does not use up the lines of another one's, or of the
// operator's socket, in the same name.
func TestRefusalsByToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t, mem.New(), logs.Options{})
		defer l.End()
		for range 1_000 {
			l.Refused(fsys.WithCredential(t.Context(), fsys.Operator, "token 1"), "/config", "write", fsys.Permission)
		}
		require.Len(t, lines(t, l, "errors", 10_000), 256)
		l.Refused(fsys.WithCredential(t.Context(), fsys.Operator, "token 2"), "/x", "open", fsys.NotExist)
		l.Refused(fsys.WithCaller(t.Context(), fsys.Operator), "/y", "open", fsys.NotExist)
		require.Len(t, lines(t, l, "errors", 10_000), 258)
	})
}

// Who asks again and again for what is refused fills no disk, and is told of
// in numbers; others still have their lines.
func TestRefusalsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t, mem.New(), logs.Options{})
		defer l.End()
		bob := fsys.WithCaller(t.Context(), "bob")
		const many = 10_000
		for range many {
			l.Refused(bob, "/config", "write", fsys.Permission)
		}
		burst := lines(t, l, "errors", 10_000)
		require.Len(t, burst, 256)
		l.Refused(fsys.WithCaller(t.Context(), "carol"), "/x", "open", fsys.NotExist)
		l.Refused(fsys.WithCaller(t.Context(), fsys.Operator), "/y", "open", fsys.NotExist)
		require.Len(t, lines(t, l, "errors", 10_000), 258)
		time.Sleep(11 * time.Second)
		synctest.Wait()
		got := lines(t, l, "errors", 10_000)
		require.Len(t, got, 259)
		require.Contains(t, got[258], fmt.Sprintf(`"reason":"%d more were refused; the last: permission denied","by":"bob","more":%[1]d}`, many-256))
		require.Contains(t, got[258], `"path":"/config"`)
		time.Sleep(time.Hour)
		l.Refused(bob, "/config", "write", fsys.Permission)
		got = lines(t, l, "errors", 10_000)
		require.Len(t, got, 260)
		require.NotContains(t, got[259], "more")
		require.Len(t, lines(t, l, "trajectory", 260), 260)
	})
}

// What waits to be summed up when the logs are closed is recorded then, once.
func TestCloseSumsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := mem.New()
		l := open(t, st, logs.Options{})
		for i, name := range []string{"carol", "bob"} {
			for range 256 + 5 + i {
				l.Refused(fsys.WithCaller(t.Context(), fsys.Caller(name)), "/config", "write", fsys.Permission)
			}
		}
		require.Len(t, lines(t, l, "errors", 1000), 2*256)
		require.NoError(t, l.Close(t.Context()))
		got := lines(t, l, "errors", 1000)
		require.Len(t, got, 2*256+2)
		require.Contains(t, got[512], `"by":"bob","more":6}`)
		require.Contains(t, got[513], `"by":"carol","more":5}`)
		time.Sleep(time.Hour)
		synctest.Wait()
		require.NoError(t, l.Close(t.Context()))
		require.Len(t, lines(t, open(t, st, logs.Options{}), "errors", 1000), 2*256+2)
	})
}

func TestALongRefusalIsShortened(t *testing.T) {
	l := open(t, mem.New(), logs.Options{})
	l.Refused(t.Context(), strings.Repeat("/é", 1<<20), "open", fsys.E(fsys.Invalid, strings.Repeat("é", 1<<20)))
	got := lines(t, l, "errors", 1)
	require.Less(t, len(got[0]), 3000)
	require.True(t, json.Valid([]byte(got[0])))
}

func TestWrite(t *testing.T) {
	l := open(t, mem.New(), logs.Options{})
	ctx := fsys.WithCaller(t.Context(), "alice")
	for _, line := range []string{"plain <text>\n", "[note] two\nlines", `{"time": "forged", "event": "inbox.received"}`} {
		require.NoError(t, fsys.WriteFile(ctx, l.Root(), "write", []byte(line)))
	}
	got := lines(t, l, "trajectory", 3)
	for i, rest := range []string{
		`,"event":"log","by":"alice","text":"plain <text>"}`,
		`,"event":"log","by":"alice","text":"[note] two\nlines"}`,
		`,"event":"log","by":"alice","data":{"time":"forged","event":"inbox.received"}}`,
	} {
		require.True(t, strings.HasSuffix(got[i], rest), got[i])
		require.NotContains(t, got[i][:20], "forged")
	}
	for _, bad := range []string{`{"a": b}`, "caf\xe9"} {
		err := fsys.WriteFile(ctx, l.Root(), "write", []byte(bad))
		require.ErrorIs(t, err, fsys.Invalid)
		require.NotEmpty(t, fsys.ReasonOf(err))
	}
	require.Len(t, lines(t, l, "recent", 9), 3)
}

func TestConcurrentEventsAreWholeAndInOneOrder(t *testing.T) {
	var told []string
	l := open(t, mem.New(), logs.Options{OnEvent: func(line []byte) { told = append(told, string(line)) }})
	const writers, each = 8, 50
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for i := range each {
				if err := l.Event(t.Context(), "e", detail{i}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	got := lines(t, l, "trajectory", writers*each)
	require.Equal(t, strings.Join(told, ""), strings.Join(got, "\n")+"\n")
	for _, line := range got {
		require.True(t, json.Valid([]byte(line)), line)
	}
}

func TestTree(t *testing.T) {
	l := open(t, mem.New(), logs.Options{})
	for range 3 {
		require.NoError(t, l.Event(t.Context(), "e", nil))
	}
	l.Refused(t.Context(), "/x", "open", fsys.Permission)
	require.NoError(t, fstest.CheckTree(t.Context(), l.Root(), "trace", "recent", "trajectory", "ticks", "errors", "write"))
}

// counting is a store that counts what is read.
type counting struct {
	store.Updater
	gets int
}

func (c *counting) Get(ctx context.Context, key string) ([]byte, error) {
	c.gets++
	return c.Updater.Get(ctx, key)
}

func (c *counting) List(ctx context.Context, prefix, after string, n int) ([]store.Pair, error) {
	c.gets += 1000
	return c.Updater.List(ctx, prefix, after, n)
}

func TestOpenIsCheap(t *testing.T) {
	st := &counting{Updater: mem.New()}
	open(t, st, logs.Options{})
	require.LessOrEqual(t, st.gets, 3)
}
