package compute_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"agent9/fsys"
	"agent9/namespace/budget"
	"agent9/providers/models/fake"
	"agent9/services/compute"
	"agent9/store"
	"agent9/store/bolt"
)

func TestKeyExpires(t *testing.T) {
	bubble(t, `{"idempotency_ttl":"1h"}`, func(d *desk) {
		once := say("use 1 1;x", `"idempotency_key":"k"`)
		d.ended(d.ask(once), compute.Done, 20)
		<-time.After(time.Hour - time.Millisecond)
		if n := d.ask(once); n != "1" {
			t.Errorf("a moment before its time is over the key is job %s", n)
		}
		<-time.After(time.Millisecond)
		if _, err := fsys.WalkPath(d.ctx, d.svc.Root(), "jobs/k"); fsys.CodeOf(err) != fsys.NotExist {
			t.Errorf("jobs/k: %v", err)
		}
		n := d.ask(say("use 1 1;y", `"idempotency_key":"k"`))
		d.ended(n, compute.Done, 20)
		if got := d.read("jobs/k/output"); n != "2" || got != "y " {
			t.Errorf("job %s: %q", n, got)
		}
		// Who removes the old one leaves the key to the new one.
		d.removeAll("jobs/1")
		if again := d.ask(say("use 1 1;y", `"idempotency_key":"k"`)); again != n {
			t.Errorf("the key is job %s", again)
		}
		d.money(0, 40)
	})
}

// A key does not expire while its job runs, or is a directory of that name.
func TestKeyOutlives(t *testing.T) {
	bubble(t, `{"idempotency_ttl":"1h"}`, func(d *desk) {
		long := say("use 1 1;x;wait for it", `"idempotency_key":"k"`, `"timeout_ms":86400000`)
		d.ask(long)
		jobs, err := fsys.Walk(d.ctx, d.svc.Root(), "jobs")
		d.must(err)
		draft, err := fsys.Mkdir(d.ctx, jobs, "essay", 0o755)
		d.must(err)
		d.must(fsys.WriteFile(d.ctx, draft, "request", []byte(say("use 1 1;essay"))))
		<-time.After(2 * time.Hour)
		d.ask("something else")
		if n := d.ask(long); n != "1" {
			t.Errorf("the key of a job that runs is job %s", n)
		}
		if got := d.read("jobs/essay/output"); got != "essay " {
			t.Errorf("got %q", got)
		}
		if _, err := fsys.Mkdir(d.ctx, jobs, "essay", 0o755); fsys.CodeOf(err) != fsys.Exist || fsys.ReasonOf(err) != "the name essay stands for job 2" {
			t.Errorf("mkdir: %v", err)
		}
		d.fake.Open("for it")
		d.ended("1", compute.Done, 20)
		if n := d.ask(say("other", `"idempotency_key":"k"`)); n != "4" {
			t.Errorf("when it has ended the key is job %s", n)
		}
	})
}

func TestExpiredKeysAreSwept(t *testing.T) {
	bubble(t, `{"idempotency_ttl":"1h"}`, func(d *desk) {
		for i := range 20 {
			d.ask(say("use 1 1;x", fmt.Sprintf(`"idempotency_key":"k%d"`, i)))
		}
		entries := func() (n int) {
			for _, key := range d.keys() {
				if strings.HasPrefix(key, "compute/key/") || strings.HasPrefix(key, "compute/exp/") {
					n++
				}
			}
			return n
		}
		for _, want := range []int{40, 32, 24, 16, 8, 0, 0} {
			if got := entries(); got != want {
				t.Errorf("%d entries, want %d", got, want)
			}
			<-time.After(time.Hour)
			d.ask("use 1 1;x")
		}
	})
}

// What failed is remembered as such.
func TestFailureIsRemembered(t *testing.T) {
	d := newDesk(t)
	once := say("use 1 1;fail invalid no", `"idempotency_key":"k"`)
	n := d.ask(once)
	d.ended(n, compute.Failed, 20)
	d.open()
	if again := d.ask(once); again != n || d.fake.Runs() != 1 {
		t.Errorf("job %s, after %d runs", again, d.fake.Runs())
	}
	d.ended(n, compute.Failed, 20)
	d.money(0, 20)
	d.removeAll("jobs/k") // is how to ask again
	if again := d.ask(once); again != "2" {
		t.Errorf("job %s", again)
	}
	d.ended("2", compute.Failed, 20)
}

// A result that was swept is not there, and its key still stands for it.
func TestSweptKeepsItsKey(t *testing.T) {
	bubble(t, `{"keep_results":"10m"}`, func(d *desk) {
		once := say("use 1 1;x", `"idempotency_key":"k"`)
		d.ended(d.ask(once), compute.Done, 20)
		<-time.After(10 * time.Minute)
		d.ended(d.ask("use 1 1;y"), compute.Done, 20)
		if got := d.names("jobs"); got != "2" {
			t.Errorf("jobs has %s", got)
		}
		if n := d.ask(once); n != "1" {
			t.Errorf("the key is job %s", n)
		}
		<-time.After(24 * time.Hour)
		if n := d.ask(once); n != "3" {
			t.Errorf("a day later the key is job %s", n)
		}
		d.ended("3", compute.Done, 20)
		d.money(0, 60)
	})
}

// The program dies inside the transaction that makes a job, and right after
// it: there is all of the job or nothing, and the key decides which.
func TestKilledBetween(t *testing.T) {
	if when := os.Getenv("COMPUTE_TEST_KILL"); when != "" {
		submitAndDie(t, os.Getenv("COMPUTE_TEST_DB"), when)
	}
	for _, when := range []string{"inside", "after"} {
		t.Run(when, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "db")
			cmd := exec.Command(os.Args[0], "-test.run=^TestKilledBetween$")
			cmd.Env = append(os.Environ(), "COMPUTE_TEST_KILL="+when, "COMPUTE_TEST_DB="+path)
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			if err := cmd.Run(); err == nil || cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
				t.Fatalf("it was not killed: %v\n%s", err, &out)
			}
			db, err := bolt.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { db.Close() })
			d := newDeskOn(t, db, &fake.Provider{})
			spent := budget.Micros(0)
			if when == "inside" {
				if got := d.names("jobs"); got != "" || len(d.keys()) != 0 {
					t.Errorf("jobs has %q, left are %v", got, d.keys())
				}
			} else {
				spent = 100 // nobody knows whether it had begun
				s := d.ended("1", compute.Failed, spent)
				if s.Error.Reason != "interrupted" {
					t.Errorf("got %+v", s)
				}
			}
			d.money(0, spent)
			if n := d.ask(dying); n != "1" {
				t.Errorf("the key is job %s", n)
			}
			if when == "inside" {
				d.ended("1", compute.Done, 20)
			}
		})
	}
}

var dying = say("use 1 1;x", `"idempotency_key":"k"`, `"max_cost_microusd":100`)

// submitAndDie is the program that TestKilledBetween kills.
func submitAndDie(t *testing.T, path, when string) {
	db, err := bolt.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	die := func() {
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
		<-context.Background().Done() // never
	}
	d := newDeskOn(t, db, &fake.Provider{})
	d.onNote = func(tx store.Store, event string) {
		switch {
		case event != "compute.submitted":
		case when == "inside":
			die()
		default:
			store.After(tx, die)
		}
	}
	t.Fatal("lived on as job " + d.ask(dying))
}

// What is kept is bounded by age and by size; the oldest go first, and what
// has just ended stays.
func TestRetention(t *testing.T) {
	stores(t, func(t *testing.T, db store.Updater) {
		if _, ok := db.(*bolt.DB); ok {
			return // its goroutines are not of the bubble
		}
		synctest.Test(t, func(t *testing.T) { testRetention(t, db) })
	})
	t.Run("bolt, by size", func(t *testing.T) { // on a clock that runs
		db, err := bolt.Open(filepath.Join(t.TempDir(), "db"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		d := newDeskOn(t, db, &fake.Provider{})
		var now atomic.Int64
		d.now = func() time.Time { return time.Unix(1e9+now.Load(), 0) }
		d.open()
		d.policy(`{"keep_bytes":0}`)
		for i := range 3 {
			d.ended(d.ask(say("use 1 2000;say "+strings.Repeat("long ", 5000), `"max_cost_microusd":1000000`)), compute.Done, 20_010)
			if got, want := d.names("jobs"), fmt.Sprint(i+1); got != want {
				t.Errorf("jobs has %s, want %s", got, want)
			}
			now.Add(120)
		}
	})
}

func testRetention(t *testing.T, db store.Updater) {
	d := newDeskOn(t, db, &fake.Provider{})
	d.policy(`{"keep_results":"1h","keep_bytes":50000}`)
	// Each is about 9 KB with its request, output and chunks.
	job := func() string {
		n := d.ask(say("use 1 99;"+strings.Repeat("x", 2000), `"max_cost_microusd":1000`))
		d.ended(n, compute.Done, 1000)
		return n
	}
	job()
	old, err := fsys.WalkPath(d.ctx, d.svc.Root(), "jobs/1")
	d.must(err)
	var kept string
	for range 10 {
		<-time.After(2 * time.Minute)
		job()
		kept = d.read("usage")
	}
	if got := d.names("jobs"); got != "7 8 9 10 11" {
		t.Errorf("jobs has %s", got)
	}
	if !strings.Contains(kept, `"done":5,`) {
		t.Errorf("usage: %s", kept)
	}
	if _, err := fsys.Walk(d.ctx, old, "output"); fsys.CodeOf(err) != fsys.NotExist {
		t.Errorf("a file of what was swept: %v", err)
	}
	<-time.After(time.Hour)
	job()
	if got := d.names("jobs"); got != "11 12" { // four in one transaction
		t.Errorf("jobs has %s", got)
	}
	d.removeAll("jobs/11")
	d.removeAll("jobs/12")
	if got := d.read("usage"); !strings.Contains(got, `"kept_bytes":0,`) {
		t.Errorf("usage: %s", got)
	}
	for _, key := range d.keys() {
		if key != "compute/next" && key != "compute/totals" && key != "compute/policy" {
			t.Errorf("left: %s", key)
		}
	}
	// What ended in the last minute stays, however much it is.
	d.policy(`{"keep_bytes":0,"keep_results":"0s"}`)
	for range 10 {
		job()
	}
	if got := len(strings.Fields(d.names("jobs"))); got != 10 {
		t.Errorf("%d jobs are there", got)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	d.must(d.svc.Close(ctx))
	d.stop()
}
