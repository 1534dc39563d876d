package compute_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"agent9/fsys"
	"agent9/namespace/budget"
	"agent9/providers/models"
	"agent9/providers/models/fake"
	"agent9/store"
	"agent9/store/mem"
)

// worst is a provider that bills the most that it may: a token for every byte of
// what it is sent, and as many as the request allows for each answer. Now and
// then it lies, and bills ten times that.
type worst struct {
	fake.Provider
	mu     sync.Mutex
	rng    *rand.Rand
	lies   bool
	billed map[string]int64 // by the message: of what was counted
	may    map[string]int64 // and the most that it may be for the rest
	worlds int
	lied   int64 // the most that a lie was above what it might be
}

// A world is how one run of the program sees the provider. What it asks when it
// is dead is not heard.
type world struct {
	*worst
	number int
}

func (w world) Run(ctx context.Context, req models.Request, emit func(models.Chunk) error) (models.Usage, error) {
	w.mu.Lock()
	dead := w.number != w.worlds
	w.mu.Unlock()
	if dead {
		return models.Usage{}, fsys.E(fsys.Unavailable, "it is dead")
	}
	return w.worst.Run(ctx, req, emit)
}

func (w *worst) Run(ctx context.Context, req models.Request, emit func(models.Chunk) error) (models.Usage, error) {
	name := req.Last()
	price := w.List[0].Price
	u := models.Usage{Input: int64(len(req.Body.Bytes())), Output: req.MaxOutput * req.Choices}
	most := int64(price.Cost(u))
	w.mu.Lock()
	if w.rng.IntN(10) == 0 {
		u = models.Usage{} // it refuses
	} else if w.lies && w.rng.IntN(20) == 0 {
		u.Output *= 10
	}
	cost := int64(price.Cost(u))
	counted := w.rng.IntN(3) > 0
	wait := w.rng.IntN(4) == 0
	w.mu.Unlock()
	note := func(counted bool) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if counted {
			w.billed[name] += cost
			w.lied = max(w.lied, cost-most)
		} else {
			w.may[name] += most
		}
	}
	switch {
	case u == models.Usage{}:
		return u, fsys.E(fsys.Invalid, "refused")
	case wait || !counted:
		if wait {
			<-ctx.Done() // cancelled, timed out, or killed
		}
		note(false)
		u.Estimated = true
		if wait {
			return u, context.Cause(ctx)
		}
		return u, emit(models.Chunk{Text: "x", Finish: "stop"})
	}
	note(true)
	return u, emit(models.Chunk{Text: "x", Finish: "stop", Usage: &u})
}

// Random requests, limits, policies, cancels, decisions, kills and jumps of the
// clock: at no moment is more spent and held than the limits allow, but for what
// one lie explains, and the ledger has what the provider billed.
func TestMoneyHolds(t *testing.T) {
	seed, steps := uint64(time.Now().UnixNano()), 150
	if s := os.Getenv("AGENT9_TEST_SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
	}
	rounds := 6
	if os.Getenv("AGENT9_MONEY") == "full" {
		steps, rounds = 1000, 60
	}
	for i := range rounds {
		t.Run(fmt.Sprintf("seed=%d", seed+uint64(i)), func(t *testing.T) { moneyHolds(t, seed+uint64(i), steps, i%2 == 1) })
	}
}

func moneyHolds(t *testing.T, seed uint64, steps int, lies bool) {
	r := rand.New(rand.NewPCG(seed, 13))
	w := &worst{rng: rand.New(rand.NewPCG(seed, 14)), lies: lies, billed: map[string]int64{}, may: map[string]int64{}}
	w.List = []models.Model{{Name: "w", Price: &models.Price{Input: 1_000_003, Cached: 1_000_003, Output: 7_000_001}}}
	d := newDeskOn(t, mem.New(), &fake.Provider{}, models.NewRunner("w", world{w, 0}))
	var clock time.Time = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	var mu sync.Mutex
	d.now = func() time.Time { mu.Lock(); defer mu.Unlock(); return clock }
	d.asking = budget.NewApprovals(d.Context(), d.account)
	d.open()
	t.Cleanup(func() { d.asking.End() })
	limit := budget.Micros((50_000 + r.Int64N(100_000)) * int64(steps) / 150)
	d.must(fsys.WriteFile(d.ctx, d.account.Root(), "limits", []byte(fmt.Sprintf(`{"total_microusd":%d,"approval_threshold_microusd":%d}`, limit, limit/4))))
	holds := func() {
		t.Helper()
		u, err := d.account.Usage(d.ctx)
		d.must(err)
		w.mu.Lock()
		lied := budget.Micros(w.lied)
		w.mu.Unlock()
		// Those that ran together may each have lied; at most 16 do.
		if over := u.Held + u.Total.Spent - limit; over > lied*16 {
			t.Fatalf("%d are held and %d spent of %d, and the provider lied by %d", u.Held, u.Total.Spent, limit, lied)
		}
	}
	d.policy(`{"keep_results":"36500d"}`) // the clock jumps by months, and what ended is looked at
	var jobs []string
	costs := map[string]int64{} // of jobs, by message
	for n := range steps {
		switch r.IntN(12) {
		case 0:
			d.policy(`{"keep_results":"36500d"` + []string{``, `,"max_concurrent":2`, `,"default_max_tokens":10`, `,"max_attempts":1`}[r.IntN(4)] + `}`)
		case 1:
			if len(jobs) > 0 {
				d.cancel(jobs[r.IntN(len(jobs))]) // or it has ended
			}
		case 2:
			mu.Lock()
			clock = clock.Add(time.Duration(r.Int64N(int64(72*time.Hour))) - 24*time.Hour)
			mu.Unlock()
		case 3:
			for _, id := range strings.Fields(d.asked()) {
				d.decide(id, []string{"approve", "deny"}[r.IntN(2)]) // or it has expired
			}
		case 4:
			if r.IntN(4) == 0 {
				d.killed(w)
			}
		default:
			fields := []string{`"model":"w"`, `"timeout_ms":` + strconv.Itoa(1+r.IntN(50)), fmt.Sprintf(`"idempotency_key":"%d"`, n)}
			if r.IntN(2) == 0 {
				fields = append(fields, fmt.Sprintf(`"max_tokens":%d`, 1+r.IntN(1000)))
			}
			if r.IntN(2) == 0 {
				fields = append(fields, fmt.Sprintf(`"max_cost_microusd":%d`, r.IntN(5000)))
			}
			if r.IntN(3) == 0 {
				fields = append(fields, fmt.Sprintf(`"n":%d`, 1+r.IntN(5)))
			}
			if reply, err := fsys.Converse(d.ctx, d.svc.Root(), "new", []byte(say(fmt.Sprint("m", n), fields...))); err == nil {
				jobs = append(jobs, strings.TrimSpace(string(reply)))
				costs[fmt.Sprint("m", n)] = 0
			}
		}
		holds()
	}
	d.must(d.svc.CancelAll(fsys.E(fsys.Canceled, "the end")))
	d.must(d.svc.Wait(d.ctx))
	holds()
	var spent, exact int64
	for _, n := range jobs {
		var req struct{ Messages []struct{ Content string } }
		d.must(json.Unmarshal([]byte(d.read("jobs/"+n+"/request")), &req))
		name, s := req.Messages[0].Content, d.status(n)
		w.mu.Lock()
		billed, may := w.billed[name], w.may[name]
		w.mu.Unlock()
		spent += int64(s.Cost)
		switch {
		case may == 0 && int64(s.Cost) != billed && s.Error.Reason != "interrupted":
			t.Errorf("the provider billed %d for %s, and the ledger has %+v", billed, name, s)
		case lies && s.Error.Reason == "interrupted": // nobody heard what was billed
		case int64(s.Cost) < billed+may:
			t.Errorf("the provider billed up to %d for %s, and the ledger has %+v", billed+may, name, s)
		}
		exact++
	}
	u, err := d.account.Usage(d.ctx)
	d.must(err)
	if u.Held != 0 || int64(u.Total.Spent) != spent || exact < 2 && !lies { // one long answer, or a lie, may be nearly all that the limit allows
		t.Errorf("%d jobs cost %d, and the account has %+v", exact, spent, u)
	}
}

// killed is the end of the program without a word: another one begins with what
// was on disk, and what the first one does then is lost.
func (d *desk) killed(w *worst) {
	d.Helper()
	frozen := mem.New()
	d.must(d.db.Update(d.ctx, func(tx store.Store) error {
		for p, err := range store.All(d.ctx, tx, "") {
			if err != nil {
				return err
			}
			if err := frozen.Put(d.ctx, p.Key, p.Value); err != nil {
				return err
			}
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.worlds++ // nothing has begun that is not on disk
		d.others = []*models.Runner{models.NewRunner("w", world{w, w.worlds})}
		return nil
	}))
	d.stop()
	d.db = frozen
	d.open()
}
