//go:build unix

package containers_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"agent9/fsys"
	"agent9/namespace/budget"
	"agent9/providers/sandboxes"
	"agent9/providers/sandboxes/fake"
	"agent9/services/containers"
	"agent9/services/internal/wall"
	"agent9/store"
	"agent9/store/bolt"
)

// spent is what the budget has spent.
func (y *yard) spent() budget.Micros {
	y.Helper()
	u, err := y.account.Usage(y.ctx)
	y.must(err)
	return u.Total.Spent
}

func TestMoney(t *testing.T) {
	y := newYard(t, fake.Options{})
	// 1,000 µ$ once; 100 and, for half a GiB, 50 µ$ a second.
	y.policy(`{"price_per_session_microusd":1000,"price_per_second_microusd":100,"price_per_gib_second_microusd":100}`)
	dir := y.kept(`"limits":{"memory_mb":512},"max_cost_microusd":50000`)
	n := strings.TrimPrefix(dir, "sessions/")
	y.eq(y.status(n).Held, 50_000)
	y.money(50_000, 0)
	y.time.Add(int64(100 * time.Second))
	if c := y.status(n).Cost; c < 16_000 || c > 17_000 {
		t.Errorf("after 100 s it has cost %d", c)
	}
	y.must(y.write(dir+"/ctl", "kill"))
	r := y.ended(n, containers.Stopped, "")
	if r.Cost < 16_000 || r.Cost > 17_000 {
		t.Errorf("100 s cost %d", r.Cost)
	}
	y.money(0, r.Cost)

	// What is not said holds the longest that it can take.
	go1 := make(chan struct{})
	y2 := newYard(t, fake.Options{Creating: waitFor(go1)})
	y2.policy(`{"price_per_second_microusd":10,"default_max_cost_microusd":5000}`)
	n = y2.ask(`{"commands":["true",{"command":"true","time_s":10}],"limits":{"time_s":60}}`)
	y2.eq(y2.status(n).Held, 10*(60+10+30))
	m := y2.ask(`{"keep":true}`)
	y2.eq(y2.status(m).Held, 5000)
	y2.refused("new", `{"commands":["true"],"max_cost_microusd":9}`, fsys.Exhausted, "$0.00001")
	y2.must(y2.write("sessions/"+n+"/ctl", "stop")) // it never ran
	y2.eq(y2.ended(n, containers.Stopped, "").Cost, 0)
	y2.must(y2.write("sessions/"+m+"/ctl", "stop"))
	y2.ended(m, containers.Stopped, "")
	y2.money(0, 0)
}

func TestTheBudgetEnds(t *testing.T) {
	y := newYard(t, fake.Options{})
	y.policy(`{"price_per_second_microusd":1000}`)
	n := y.ask(`{"commands":["echo ready; sleep 1000"],"max_cost_microusd":1500}`)
	r := y.ended(n, containers.Expired, "budget: budget")
	if r.Cost != 1500 {
		t.Errorf("it cost %d", r.Cost)
	}
	y.money(0, r.Cost)
	// More time takes more money.
	dir := y.kept(`"max_cost_microusd":100000`)
	y.must(y.write(dir+"/ctl", "extend 500"))
	if h := y.status(strings.TrimPrefix(dir, "sessions/")).Held; h < 500_000 || h > 510_000 {
		t.Errorf("held %d for 500 s", h)
	}
	y.must(fsys.WriteFile(y.ctx, y.account.Root(), "limits", []byte(`{"total_microusd":600000}`)))
	if err := y.write(dir+"/ctl", "extend 5000"); fsys.CodeOf(err) != fsys.Exhausted {
		t.Errorf("time without money: %v", err)
	}
	y.refused("new", `{"commands":["true"],"max_cost_microusd":200000}`, fsys.Exhausted, "")
	y.must(y.write(dir+"/ctl", "kill"))
	cost := y.ended(strings.TrimPrefix(dir, "sessions/"), containers.Stopped, "").Cost
	y.money(0, r.Cost+cost)
}

// However many ask for more time at once, what is held is what the longest needs,
// and all of it is settled.
func TestMoreTimeAtOnce(t *testing.T) {
	db, err := bolt.Open(filepath.Join(t.TempDir(), "db")) // which commits several together
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	p, err := fake.New(fake.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	y := &yard{T: t, db: db, wall: &wall.Clock{}, fake: p, heard: make(chan struct{})}
	y.open()
	y.policy(`{"price_per_second_microusd":100}`)
	var spent budget.Micros
	for range 5 {
		dir := y.kept(`"max_cost_microusd":5000`)
		var wg sync.WaitGroup
		for i := range 16 {
			wg.Go(func() { y.must(y.write(dir+"/ctl", fmt.Sprint("extend ", 100+10*(i%4)))) })
		}
		wg.Wait()
		n := strings.TrimPrefix(dir, "sessions/")
		if h := y.status(n).Held; h < 13_000 || h > 14_500 {
			t.Errorf("held %d for 130 s", h)
		}
		y.must(y.write(dir+"/ctl", "kill"))
		spent += y.ended(n, containers.Stopped, "").Cost
		y.money(0, spent)
	}
}

func TestApproval(t *testing.T) {
	y := newYard(t, fake.Options{})
	y.asking = budget.NewApprovals(t.Context(), y.account)
	y.open()
	y.must(fsys.WriteFile(y.ctx, y.account.Root(), "limits", []byte(`{"approval_threshold_microusd":100}`)))
	y.policy(`{"price_per_session_microusd":1}`)
	ask := func() (n, id string) {
		n = y.ask(`{"commands":["echo ran"],"max_cost_microusd":1000}`)
		var s struct{ State, Approval string }
		y.must(json.Unmarshal([]byte(y.read("sessions/"+n+"/status")), &s))
		y.eq(s.State, "awaiting-approval")
		return n, s.Approval
	}
	decide := func(y *yard, id, what string) {
		y.must(fsys.WriteFile(y.ctx, y.asking.Root(), id, []byte(what)))
	}
	n, id := ask()
	decide(y, id, "approve")
	y.ended(n, containers.Done, "")
	y.money(0, 1)
	n, id = ask()
	decide(y, id, "deny too much")
	y.ended(n, containers.Failed, "too much")
	n, _ = ask()
	y.must(y.write("sessions/"+n+"/ctl", "stop"))
	y.ended(n, containers.Stopped, "")
	n, id = ask()
	m, _ := ask()
	again := y.die()
	again.open()
	again.must(fsys.Remove(again.ctx, must(fsys.WalkPath(again.ctx, again.svc.Root(), "sessions/"+m))))
	decide(again, id, "approve")
	again.ended(n, containers.Done, "")
	again.money(0, 2)
}

func TestRestart(t *testing.T) {
	y := newYard(t, fake.Options{})
	y.policy(`{"price_per_second_microusd":10,"max_concurrent":2}`)
	dir := y.kept(`"workspace":"w"`)
	y.outcome(y.exec(dir, "echo kept > file"))
	x := y.exec(dir, "echo ready; sleep 1000")
	y.follow(x+"/stdout", "ready")
	second := y.kept()
	queued := y.ask("echo never")
	y.exec(second, "true")
	y.time.Add(int64(20 * time.Second))
	y.outcome(y.exec(dir, "true")) // wakes the clock, which writes down how long it ran
	again := y.die()
	again.time.Add(int64(time.Hour)) // of which it ran nothing
	again.open()
	for _, d := range []string{dir, second} {
		n := strings.TrimPrefix(d, "sessions/")
		r := again.ended(n, containers.Failed, "canceled: interrupted")
		if r.Cost > 400 {
			t.Errorf("session %s ran 20 s and cost %d", n, r.Cost)
		}
	}
	if c := again.status(strings.TrimPrefix(dir, "sessions/")).Cost; c < 200 {
		t.Errorf("it cost %d", c)
	}
	again.eq(again.ended(queued, containers.Failed, "interrupted").Cost, 0)
	if s := again.read(x + "/status"); !strings.Contains(s, `"state":"stopped"`) {
		t.Error(s)
	}
	again.eq(again.read(dir+"/files/workspace/file"), "kept\n")
	again.money(0, again.spent())
	n := again.ask(`{"commands":["cat file"],"workspace":"w"}`)
	again.ended(n, containers.Done, "")
	again.eq(again.read("sessions/"+n+"/stdout"), "kept\n")
}

// TestSetClockCostsNothing sets the clock while sessions run: they cost what was
// measured, end when that says so, and a crash does not change it.
func TestSetClockCostsNothing(t *testing.T) {
	y := newYard(t, fake.Options{})
	y.policy(`{"price_per_second_microusd":100,"idle_s":3600,"max_life_s":7200}`)
	dir := y.kept(`"max_cost_microusd":500000`)
	n := strings.TrimPrefix(dir, "sessions/")
	passes := func(by time.Duration) {
		t.Helper()
		y.time.Add(int64(by))
		y.outcome(y.exec(dir, "true")) // wakes the clock, which writes down how long it ran
	}
	costs := func(where string, cost budget.Micros, seconds budget.Micros) {
		t.Helper()
		if cost < seconds*100 || cost > seconds*100+4000 {
			t.Errorf("%s: %d s have cost %d", where, seconds, cost)
		}
	}
	expires := func(where string) {
		t.Helper()
		var s struct{ Expires string }
		y.must(json.Unmarshal([]byte(y.read(dir+"/status")), &s))
		at, err := time.Parse(fsys.TimeFormat, s.Expires)
		y.must(err)
		if left := at.Sub(y.now().Round(0)); left < 3500*time.Second || left > 3600*time.Second {
			t.Errorf("%s: it ends in %v", where, left)
		}
	}
	passes(20 * time.Second)
	y.wall.Set(24 * time.Hour)
	passes(20 * time.Second)
	costs("a day ahead", y.status(n).Cost, 40)
	expires("a day ahead")
	y.wall.Set(-48 * time.Hour)
	passes(20 * time.Second)
	costs("a day behind", y.status(n).Cost, 60)
	expires("a day behind")
	y.must(y.write(dir+"/ctl", "kill"))
	cost := y.ended(n, containers.Stopped, "").Cost
	costs("ended", cost, 60)
	y.money(0, cost)

	for _, by := range []time.Duration{24 * time.Hour, -48 * time.Hour} {
		dir = y.kept(`"max_cost_microusd":500000`)
		n = strings.TrimPrefix(dir, "sessions/")
		y.wall.Set(by)
		passes(40 * time.Second)
		was := y.spent()
		y = y.die()
		y.open()
		costs("after a crash", y.ended(n, containers.Failed, "interrupted").Cost, 40)
		y.money(0, was+y.status(n).Cost)
	}
}

// TestWanted looks for what the start of a daemon sweeps.
func TestWanted(t *testing.T) {
	y := newYard(t, fake.Options{})
	y.kept()
	runner := sandboxes.NewRunner("fake", y.fake)
	hold := takeHold(y)
	for _, name := range []string{containers.SandboxName("a1", 1), containers.SandboxName("a1", 99), containers.SandboxName("a1", 1) + ".snapshot", "other"} {
		_, err := runner.Create(y.ctx, hold, sandboxes.Spec{Name: name}, nil)
		y.must(err)
	}
	st := store.Sub(y.db, "containers/")
	sweep := func() (kept int) {
		y.must(runner.Sweep(y.ctx, func(f sandboxes.Found) bool {
			ok, err := containers.Wanted(y.ctx, st, f.Name, f.ID)
			y.must(err)
			if ok {
				kept++
			}
			return ok
		}))
		return kept
	}
	y.eq(sweep(), 2) // a snapshot may be being made
	y.must(y.write("sessions/1/ctl", "kill"))
	y.ended("1", containers.Stopped, "")
	y.eq(sweep(), 1)
	y.must(y.svc.Purge(y.ctx))
	y.must(y.fake.Empty())
}

func takeHold(y *yard) (hold *budget.Hold) {
	y.Helper()
	y.must(y.db.Update(y.ctx, func(tx store.Store) (err error) {
		hold, err = budget.Take(y.ctx, tx, 0, "a test")
		return err
	}))
	return hold
}

func TestClose(t *testing.T) {
	y := newYard(t, fake.Options{})
	dir := y.kept()
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	y.must(y.svc.Close(ctx))
	y.ended(strings.TrimPrefix(dir, "sessions/"), containers.Failed, "interrupted")
	y.refused("new", "true", fsys.Unavailable, "shutting down")
}

// A cost that is named bounds what is not: a session whose time is named is
// refused when that costs more, others end when it is spent. What waits does not
// begin when overdrawn meanwhile.
func TestNamedCostAndNamedTime(t *testing.T) {
	y := newYard(t, fake.Options{})
	y.policy(`{"price_per_second_microusd":10,"max_concurrent":1}`)
	y.refused("new", `{"commands":[{"command":"true","time_s":100}],"max_cost_microusd":1000}`, fsys.Exhausted, "may take 130 seconds, which cost $0.0013")
	y.refused("new", `{"commands":["true"],"limits":{"time_s":100},"max_cost_microusd":1000}`, fsys.Exhausted, "may take 130 seconds")
	y.must(fsys.WriteFile(y.ctx, y.account.Root(), "limits", []byte(`{"total_microusd":100000,"approval_threshold_microusd":50000}`)))
	dir := y.kept(`"max_cost_microusd":1000`)
	n := y.ask(`{"commands":["true"],"max_cost_microusd":1000}`)
	if err := y.write(dir+"/ctl", "extend 6000"); fsys.CodeOf(err) != fsys.Permission {
		t.Errorf("to extend beyond the approval threshold: %v", err)
	}
	y.must(fsys.WriteFile(y.ctx, y.account.Root(), "limits", []byte(`{"total_microusd":100}`)))
	y.must(y.write(dir+"/ctl", "kill"))
	y.ended(strings.TrimPrefix(dir, "sessions/"), containers.Stopped, "")
	y.eq(y.ended(n, containers.Failed, "overdrawn").Cost, 0)
}
