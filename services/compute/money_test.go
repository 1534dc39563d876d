package compute_test

import (
	"strings"
	"sync"
	"testing"

	"agent9/fsys"
	"agent9/namespace/budget"
	"agent9/providers/models"
	"agent9/providers/models/echo"
	"agent9/providers/models/exec"
	"agent9/providers/models/fake"
	"agent9/services/compute"
	"agent9/store"
	"agent9/store/mem"
)

// Two hundred ask for what there is money for fifty times.
func TestExactlyFifty(t *testing.T) {
	stores(t, func(t *testing.T, db store.Updater) {
		d := newDeskOn(t, db, &fake.Provider{})
		d.must(d.db.Update(d.ctx, func(tx store.Store) error {
			return d.account.SetLimits(d.ctx, tx, budget.Limits{Total: new(budget.Micros(50 * 20))})
		}))
		var wg sync.WaitGroup
		var mu sync.Mutex
		accepted, refused := 0, 0
		for range 200 {
			wg.Go(func() {
				_, err := fsys.Converse(d.ctx, d.svc.Root(), "new", []byte(say("use 1 1;x", `"max_cost_microusd":20`)))
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					accepted++
				case fsys.CodeOf(err) == fsys.Exhausted:
					refused++
				default:
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if accepted != 50 || refused != 150 {
			t.Errorf("%d were accepted and %d refused", accepted, refused)
		}
		for _, n := range strings.Fields(d.names("jobs")) {
			d.read("jobs/" + n + "/result")
		}
		d.money(0, 1000)
		if d.fake.Runs() != 50 {
			t.Errorf("%d ran", d.fake.Runs())
		}
	})
}

// A job whose end cannot be recorded as it was has failed; it is settled all
// the same, or, if nothing can be recorded at all, by the next start.
func TestEndCannotBeRecorded(t *testing.T) {
	d := newDesk(t)
	full := fsys.E(fsys.NoSpace, "no space")
	d.failNote = map[string]error{"compute.done": full}
	d.ended(d.ask(say("use 1 1;x", `"max_cost_microusd":100`)), compute.Failed, 20)
	if s := d.status("1"); s.Error.Code != "no-space" {
		t.Errorf("got %+v", s)
	}
	d.money(0, 20)

	d.failNote["compute.failed"] = full
	n := d.ask(say("use 1 1;x", `"max_cost_microusd":100`))
	d.read("jobs/" + n + "/result") // readers are let go
	if s := d.status(n); s.State != compute.Failed || s.Error.Code != "no-space" {
		t.Errorf("got %+v", s)
	}
	d.money(100, 20)
	d.failNote = nil
	d.open()
	d.ended(n, compute.Failed, 100)
	d.money(0, 120)
}

// A refused submission leaves nothing behind.
func TestRefusedLeavesNothing(t *testing.T) {
	d := newDesk(t)
	d.failNote = map[string]error{"compute.submitted": fsys.E(fsys.NoSpace, "no space")}
	d.refused(say("x", `"idempotency_key":"k"`), fsys.NoSpace, "no space")
	d.failNote = nil
	d.money(0, 0)
	if keys := d.keys(); len(keys) != 0 {
		t.Errorf("left: %v", keys)
	}
	if n := d.ask(say("x", `"idempotency_key":"k"`)); n != "1" {
		t.Errorf("got job %s", n)
	}
	d.read("jobs/1/result")
}

func TestDrivers(t *testing.T) {
	program, err := exec.New(exec.Config{Command: `tr a-z A-Z; case $(cat $AGENT9_REQUEST) in *gpt-x*) echo " as asked";; esac`})
	if err != nil {
		t.Fatal(err)
	}
	d := newDeskOn(t, mem.New(), &fake.Provider{},
		models.NewRunner("echo", echo.New(echo.Config{})), models.NewRunner("program", program))
	d.read("jobs/" + d.ask(say("hello  there\n", `"provider":"echo"`)) + "/result")
	if got := d.read("jobs/1/output"); got != "hello  there\n" {
		t.Errorf("echo: %q", got)
	}
	d.read("jobs/" + d.ask(say("hello", `"model":"gpt-x"`)) + "/result")
	if got := d.read("jobs/2/output"); got != "HELLO as asked\n" {
		t.Errorf("exec: %q", got)
	}
	d.money(0, 0)
}
