package compute_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"agent9/fsys"
	"agent9/providers/models/fake"
	"agent9/services/compute"
	"agent9/store"
	"agent9/store/mem"
)

// clock lets the test say what time it is.
func (d *desk) clock(s string) {
	d.Helper()
	now, err := time.Parse(time.RFC3339, "2026-01-01T12:"+s+"Z")
	d.must(err)
	d.time.Store(now.UnixNano())
}

func newClockedDesk(t *testing.T, db store.Updater) *desk {
	d := newDeskOn(t, db, &fake.Provider{})
	d.now = func() time.Time { return time.Unix(0, d.time.Load()) }
	d.clock("00:00")
	d.open()
	return d
}

// slow checks that new is refused, at open already.
func (d *desk) slow(reason string) {
	d.Helper()
	if _, err := fsys.OpenPath(d.ctx, d.svc.Root(), "new", fsys.Write); fsys.CodeOf(err) != fsys.Busy || fsys.ReasonOf(err) != reason {
		d.Errorf("new: got %v, want Busy: %s", err, reason)
	}
}

func TestRequestsPerMinute(t *testing.T) {
	stores(t, func(t *testing.T, db store.Updater) {
		d := newClockedDesk(t, db)
		d.policy(`{"requests_per_minute":3}`)
		first := d.ask(say("use 1 1;x", `"idempotency_key":"k"`))
		d.clock("00:20.5")
		d.ask(say("use 1 1;x"))
		held, err := fsys.OpenPath(d.ctx, d.svc.Root(), "new", fsys.Write)
		d.must(err)
		d.ask(say("use 1 1;x"))
		d.slow("the policy allows 3 requests a minute; wait 41 s")
		if _, err := fsys.WriteAt(d.ctx, held, []byte(say("use 1 1;x")), 0); fsys.CodeOf(err) != fsys.Busy {
			t.Errorf("what was open before: got %v", err)
		}
		d.read("jobs/3/result")
		d.open() // a restart forgets nothing
		d.clock("01:00.999")
		d.slow("the policy allows 3 requests a minute; wait 1 s")
		d.clock("00:30") // nor does a clock that is set back
		d.slow("the policy allows 3 requests a minute; wait 31 s")
		d.clock("01:01")
		if n := d.ask(say("use 1 1;x", `"idempotency_key":"k"`)); n != first {
			t.Errorf("the same key is job %s", n)
		}
		d.ended(d.ask(say("use 1 1;x")), compute.Done, 20)
		d.slow("the policy allows 3 requests a minute; wait 20 s")
		d.policy(`{}`)
		d.ended(d.ask(say("use 1 1;x")), compute.Done, 20)
	})
}

func TestTokensPerMinute(t *testing.T) {
	d := newClockedDesk(t, mem.New())
	d.policy(`{"tokens_per_minute":1000}`)
	d.ended(d.ask(say("use 600 399;x", `"max_cost_microusd":100000`)), compute.Done, 9990)
	d.clock("00:10")
	d.ended(d.ask(say("use 10 10;x", `"max_cost_microusd":100000`)), compute.Done, 200) // one is left
	d.slow("the policy allows 1000 tokens a minute; wait 51 s")
	d.clock("01:02")
	d.ask(say("wait forever;"+strings.Repeat("x", 3000), `"max_cost_microusd":100000`)) // counts what it asks at once
	d.slow("the policy allows 1000 tokens a minute; wait 61 s")
	d.must(d.cancel("3"))
}

// However many come at once, no more get through.
func TestRateHolds(t *testing.T) {
	d := newClockedDesk(t, mem.New())
	d.policy(`{"requests_per_minute":20}`)
	var wg sync.WaitGroup
	var mu sync.Mutex
	got := map[fsys.Code]int{}
	accepted := 0
	for range 100 {
		wg.Go(func() {
			_, err := fsys.Converse(d.ctx, d.svc.Root(), "new", []byte(say("use 1 1;x")))
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				accepted++
			} else {
				got[fsys.CodeOf(err)]++
			}
		})
	}
	wg.Wait()
	if accepted != 20 || got[fsys.Busy] != 80 {
		t.Errorf("%d were accepted, the others: %v", accepted, got)
	}
	for n := range 20 {
		d.read(fmt.Sprintf("jobs/%d/result", n+1))
	}
	if d.fake.Runs() != 20 {
		t.Errorf("%d ran", d.fake.Runs())
	}
	if got := d.read("usage"); !strings.Contains(got, `"requests_per_minute":20`) {
		t.Errorf("usage is %s", got)
	}
}
