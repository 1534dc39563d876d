package host_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"agent9/fsys"
	"agent9/namespace/budget"
	"agent9/providers/models"
	"agent9/providers/models/fake"
	"agent9/providers/programs"
	"agent9/services/host"
	"agent9/services/identity"
	"agent9/services/internal/wall"
	"agent9/store"
	"agent9/store/check"
	"agent9/store/mem"
)

// town is a host whose clock a test sets. Its agents are alice, whose program
// notes what set it off, bob, who writes to her, works and talks.
type town struct {
	*testing.T
	ctx  context.Context
	wall wall.Clock
	st   store.Updater
	key  string
	ring *identity.KeyRing
	h    *host.Host
	life context.CancelFunc

	mu   sync.Mutex
	rang map[string]int // ticks, by the text and the time of the alarm
	got  []string       // texts of messages, as they came to alice

	sent, ids []string          // bob's messages
	tokens    map[string]*token // by secret
	alarms    map[string]int    // texts of alarms that ring once
	seen      map[string][]byte // what streams had
}

// A token is what is known of one.
type token struct {
	expires time.Time
	latest  time.Time // the latest that the clock has shown since it was issued
	gone    bool      // it was refused
	done    <-chan struct{}
}

const bobsDay = 5000 // micro-dollars

// bubble runs f in a synctest bubble. No garbage is collected until it ends: what
// services have to do when they are, is not in the bubble.
func bubble(t *testing.T, f func(t *testing.T)) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	synctest.Test(t, f)
}

func newTown(t *testing.T) *town {
	w := &town{
		T: t, ctx: fsys.WithCaller(t.Context(), fsys.Operator), st: mem.New(), key: filepath.Join(t.TempDir(), "master.key"),
		rang: map[string]int{}, tokens: map[string]*token{}, alarms: map[string]int{}, seen: map[string][]byte{},
	}
	var err error
	w.ring, err = identity.RingFromFile(w.ctx, store.Sub(w.st, host.KeyRingPart), w.key)
	require.NoError(t, err)
	w.open()
	for _, name := range []string{"alice", "bob"} {
		_, err := fsys.Mkdir(w.ctx, w.walk("agents"), name, 0o700)
		require.NoError(t, err)
	}
	w.write("agents/alice/config", `{"program": {"go": "notes"}}`)
	w.write("agents/bob/budget/limits", fmt.Sprintf(`{"per_day_microusd": %d}`, bobsDay))
	w.write("agents/alice/ctl", "alarm 17 * * * * hourly")
	w.write("agents/alice/ctl", "alarm @every 45m pause")
	return w
}

func (w *town) open() {
	w.Helper()
	life, end := context.WithCancel(context.Background())
	w.life = end
	p := &fake.Provider{List: []models.Model{{Name: "fake", Price: &models.Price{Input: 1e6, Cached: 1e6, Output: 1e6}}}}
	var err error
	w.h, err = host.Open(life, host.Options{
		Store: w.st, Ring: w.ring, Providers: []*models.Runner{models.NewRunner("fake", p)}, Now: w.wall.Now,
		Programs: func(programs.Spec) (programs.Program, error) { return w, nil },
	})
	require.NoError(w, err)
	w.h.Start(life)
}

// restart ends the host, and opens another one on what it has stored.
func (w *town) restart() {
	w.Helper()
	require.NoError(w, w.h.Close(w.ctx))
	w.life()
	w.open()
	for _, k := range w.tokens {
		k.done = nil
	}
}

// Run is alice's program.
func (w *town) Run(_ context.Context, t programs.Trigger, _ programs.Env) (programs.Outcome, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch t.Cause {
	case programs.Timer:
		w.rang[t.Alarm.Text+" "+t.Alarm.Due]++
	case programs.Message:
		var m struct{ Body string }
		if err := json.Unmarshal(t.Message, &m); err != nil {
			return programs.Outcome{}, err
		}
		w.got = append(w.got, m.Body)
	}
	return programs.Outcome{}, nil
}

func (w *town) walk(path string) fsys.Node {
	w.Helper()
	n, err := fsys.WalkPath(w.ctx, w.h.Root(), path)
	require.NoError(w, err, path)
	return n
}

func (w *town) write(path, text string) {
	w.Helper()
	require.NoError(w, fsys.WriteFile(w.ctx, w.h.Root(), path, []byte(text)), path)
}

func (w *town) ask(path, text string) string {
	w.Helper()
	reply, err := fsys.Converse(w.ctx, w.h.Root(), path, []byte(text))
	require.NoError(w, err, path)
	return strings.TrimSpace(string(reply))
}

func (w *town) json(path string, v any) {
	w.Helper()
	b, err := fsys.ReadFile(w.ctx, w.h.Root(), path)
	require.NoError(w, err, path)
	require.NoError(w, json.Unmarshal(b, v), path)
}

// grown returns what a stream has, which begins with what it had before.
func (w *town) grown(path string) []byte {
	w.Helper()
	n := w.walk(path)
	info, err := n.Stat(w.ctx)
	require.NoError(w, err, path)
	f, err := n.Open(w.ctx, fsys.Read)
	require.NoError(w, err, path)
	defer f.Close()
	all := make([]byte, info.Size)
	for off := 0; off < len(all); {
		n, err := fsys.ReadAt(w.ctx, f, all[off:], int64(off))
		require.NoError(w, err, path)
		off += n
	}
	require.True(w, strings.HasPrefix(string(all), string(w.seen[path])), "%s is another one than before", path)
	w.seen[path] = all
	return all
}

// passes lets time go by, as no clock shows it, and then looks at everything.
func (w *town) passes(d time.Duration) {
	w.Helper()
	w.lasts(d, 10*time.Minute)
}

func (w *town) lasts(d, step time.Duration) {
	w.Helper()
	for ; d > 0; d -= step {
		<-time.After(min(d, step))
		synctest.Wait()
		w.look()
	}
}

// set sets the clock. Then there is the time that the daemon has to see it.
func (w *town) set(by time.Duration) {
	w.Helper()
	w.wall.Set(by)
	w.passes(2 * time.Minute)
}

// look checks what has to be true at any time.
func (w *town) look() {
	w.Helper()
	now := w.wall.Now()
	for secret, k := range w.tokens {
		_, name, done, err := w.h.Token(w.ctx, w.ctx, secret)
		if now.After(k.latest) {
			k.latest = now
		}
		expired := !k.expires.After(k.latest)
		switch {
		case err == nil && (k.gone || expired):
			w.Errorf("at %v, and at the latest %v, a token for %s that ended at %v opens the door; it was refused before: %v", now, k.latest, name, k.expires, k.gone)
		case err != nil && !expired:
			w.Errorf("at %v a token that ends at %v opens nothing: %v", now, k.expires, err)
		case err == nil && k.done == nil:
			k.done = done
		}
		k.gone = k.gone || err != nil
		if k.done != nil {
			select {
			case <-k.done:
				if !expired {
					w.Errorf("at %v a session ended that may last until %v", now, k.expires)
				}
			default:
				if expired {
					w.Errorf("at %v a session goes on that may last until %v", now, k.expires)
				}
			}
		}
	}
	w.books()
	w.grown("agents/alice/logs/trajectory")
	w.grown("agents/bob/outbox/sent")
}

// books checks bob's ledger against what usage says, and that no day had more
// than it may.
func (w *town) books() {
	w.Helper()
	var u budget.Usage
	w.json("agents/bob/budget/usage", &u)
	sum, held, day := budget.Micros(0), map[string]budget.Micros{}, ""
	days := map[string]budget.Micros{}
	for line := range strings.Lines(string(w.grown("agents/bob/budget/ledger"))) {
		var e budget.Entry
		require.NoError(w, json.Unmarshal([]byte(line), &e))
		day = max(day, e.Time[:len(time.DateOnly)])
		switch e.Kind {
		case "hold":
			held[e.Hold] = *e.Max
		case "settle", "release":
			delete(held, e.Hold)
			sum += *e.Cost
			days[day] += *e.Cost
		}
	}
	if u.Total.Spent != sum || u.Holds != len(held) {
		w.Errorf("usage says %d spent and %d holds, the ledger %d and %d", u.Total.Spent, u.Holds, sum, len(held))
	}
	for day, spent := range days {
		if spent > bobsDay {
			w.Errorf("%d were spent on %s, and may be %d", spent, day, bobsDay)
		}
	}
	if u.Day.Window < day {
		w.Errorf("the window went back from %s to %s", day, u.Day.Window)
	}
}

func (w *town) issue(life time.Duration) {
	w.Helper()
	secret := w.ask("ctl", "token bob r "+life.String())
	w.tokens[secret] = &token{expires: w.wall.Now().Add(life).Truncate(time.Millisecond)}
}

func (w *town) send() {
	w.Helper()
	text := fmt.Sprintf("message %d", len(w.sent))
	id := w.ask("agents/bob/outbox/new", `{"to": "alice", "body": "`+text+`"}`)
	w.sent, w.ids = append(w.sent, text), append(w.ids, id)
}

func (w *town) alarm(in time.Duration) {
	w.Helper()
	text := fmt.Sprintf("once-%d", len(w.alarms))
	w.write("agents/alice/ctl", "alarm +"+in.String()+" "+text)
	w.alarms[text] = 0
}

// work spends money, unless there is none today.
func (w *town) work() {
	w.Helper()
	req := `{"messages": [{"role": "user", "content": "use 300 300;say done"}], "max_cost_microusd": 1000}`
	if _, err := fsys.Converse(w.ctx, w.h.Root(), "agents/bob/compute/new", []byte(req)); err != nil {
		require.Equal(w, fsys.Exhausted, fsys.CodeOf(err), "%v", err)
	}
}

// end sets the clock right, waits for all that is to come, and checks it.
func (w *town) end() {
	w.Helper()
	w.lasts(5*24*time.Hour, time.Hour)
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Equal(w.got, w.sent) {
		w.Errorf("alice got %q, and bob sent %q", w.got, w.sent)
	}
	if !slices.IsSorted(w.ids) {
		w.Errorf("the ids of bob's messages are not in order: %q", w.ids)
	}
	hours := 0
	for at, n := range w.rang {
		text, _, _ := strings.Cut(at, " ")
		if n != 1 && text != "pause" {
			w.Errorf("the alarm %s rang %d times", at, n)
		}
		switch text {
		case "hourly":
			hours++
		case "pause":
		default:
			w.alarms[text] += n
		}
	}
	for text, n := range w.alarms {
		if n != 1 {
			w.Errorf("the alarm %s rang %d times", text, n)
		}
	}
	if hours < 5*24 {
		w.Errorf("the hourly alarm rang %d times in more than five days", hours)
	}
	require.NoError(w, w.h.Close(w.ctx))
	w.life()
	r := check.New()
	require.NoError(w, host.Check(w.ctx, w.st, w.ring, r))
	if all := r.All(); len(all) > 0 {
		w.Errorf("the store is not whole:\n%s", said(all))
	}
}

// TestClockIsSet sets the clock back and forward, by an hour and by a day, at
// chosen moments.
func TestClockIsSet(t *testing.T) {
	const day = 24 * time.Hour
	for _, by := range []time.Duration{-time.Hour, time.Hour, -day, day} {
		t.Run(by.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newTown(t)
				w.issue(30 * time.Minute)
				w.issue(12 * time.Hour)
				w.issue(48 * time.Hour)
				w.alarm(30 * time.Minute)
				w.alarm(12 * time.Hour)
				w.alarm(48 * time.Hour)
				for range 7 { // more than a day has
					w.work()
					w.send()
				}
				w.passes(16 * time.Minute) // just before the hourly alarm
				w.set(by)
				for range 7 {
					w.work()
					w.send()
				}
				w.issue(45 * time.Minute)
				w.alarm(45 * time.Minute)
				w.restart()
				w.set(-by)
				w.send()
				w.work()
				w.passes(3 * time.Hour)
				w.restart()
				w.end()
			})
		})
	}
}

// TestClockIsSetAtRandom does that at random moments.
func TestClockIsSetAtRandom(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, 9))
				w := newTown(t)
				off := time.Duration(0)
				for range 40 {
					switch random.IntN(8) {
					case 0:
						by := []time.Duration{-24 * time.Hour, -time.Hour, time.Hour, 24 * time.Hour}[random.IntN(4)]
						off += by
						w.set(by)
					case 1:
						w.set(-off)
						off = 0
					case 2:
						w.restart()
					case 3:
						w.issue(time.Duration(1+random.IntN(40*60)) * time.Minute)
					case 4:
						w.alarm(time.Duration(random.IntN(40*60)) * time.Minute)
					case 5:
						w.work()
					case 6:
						w.send()
					case 7:
						w.passes(time.Duration(random.IntN(180)) * time.Minute)
					}
				}
				w.set(-off)
				w.end()
			})
		})
	}
}
