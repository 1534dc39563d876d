package compute_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"agent9/fsys"
	"agent9/fsys/fstest"
	"agent9/providers/models/fake"
	"agent9/services/compute"
	"agent9/store"
)

func TestOneKeyIsOneJob(t *testing.T) {
	stores(t, func(t *testing.T, db store.Updater) {
		d := newDeskOn(t, db, &fake.Provider{})
		var wg sync.WaitGroup
		var mu sync.Mutex
		replies := map[string]int{}
		for i := range 100 {
			wg.Go(func() {
				// The same request, written differently.
				req := say("use 1 1;x", `"idempotency_key":"k"`, `"max_cost_microusd":100`)
				if i%2 == 1 {
					req = `{ "max_cost_microusd": 100, "idempotency_key": "k", ` + req[1:strings.LastIndex(req, `,"idem`)] + "}"
				}
				reply, err := fsys.Converse(d.ctx, d.svc.Root(), "new", []byte(req))
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					replies[err.Error()]++
				}
				replies[string(reply)]++
			})
		}
		wg.Wait()
		if len(replies) != 1 || replies["1\n"] != 100 {
			t.Errorf("the replies are %v", replies)
		}
		d.ended("1", compute.Done, 20)
		if d.fake.Runs() != 1 {
			t.Errorf("ran %d times", d.fake.Runs())
		}
		d.money(0, 20)
		d.refused(say("y", `"idempotency_key":"k"`), fsys.Exist, "the idempotency key k stands for job 1, which was another request")
		if got := d.read("jobs/k/output"); got != "x " {
			t.Errorf("jobs/k/output: %q", got)
		}
	})
}

func TestDraft(t *testing.T) {
	d := newDesk(t)
	root := d.svc.Root()
	jobs, err := fsys.Walk(d.ctx, root, "jobs")
	d.must(err)
	draft, err := fsys.Mkdir(d.ctx, jobs, "essay", 0o755)
	d.must(err)
	d.must(fstest.CheckTree(d.ctx, root, "jobs/essay/request"))
	if _, err := fsys.Mkdir(d.ctx, jobs, "essay", 0o755); fsys.CodeOf(err) != fsys.Exist {
		t.Errorf("mkdir again: %v", err)
	}
	if _, err := fsys.Mkdir(d.ctx, jobs, "17", 0o755); fsys.CodeOf(err) != fsys.Invalid {
		t.Errorf("mkdir of a number: %v", err)
	}
	if err := fsys.WriteFile(d.ctx, draft, "request", []byte(`{"messages":`)); fsys.CodeOf(err) != fsys.Invalid {
		t.Errorf("half a request: %v", err)
	}
	if err := fsys.WriteFile(d.ctx, draft, "request", []byte(say("x", `"idempotency_key":"other"`))); fsys.CodeOf(err) != fsys.Invalid {
		t.Errorf("another key: %v", err)
	}
	reply, err := fsys.Converse(d.ctx, draft, "request", []byte(say("use 0 1;dear reader")))
	if err != nil || string(reply) != "1\n" {
		t.Fatalf("got %q, %v", reply, err)
	}
	if got := d.read("jobs/essay/output"); got != "dear reader " {
		t.Errorf("got %q", got)
	}
	if got, err := fsys.ReadFile(d.ctx, draft, "request"); err != nil || string(got) != say("use 0 1;dear reader")+"\n" {
		t.Errorf("the request of what was a draft: %q, %v", got, err)
	}
	if _, err := fsys.Mkdir(d.ctx, jobs, "essay", 0o755); fsys.CodeOf(err) != fsys.Exist {
		t.Errorf("mkdir of a job: %v", err)
	}
	if got := d.names("jobs"); got != "essay" {
		t.Errorf("jobs has %s", got)
	}
	d.must(fstest.CheckTree(d.ctx, root, "jobs/1/status"))
	d.refused(say("another", `"idempotency_key":"essay"`), fsys.Exist, "job 1")

	_, err = fsys.Mkdir(d.ctx, jobs, "never", 0o755)
	d.must(err)
	never, err := fsys.WalkPath(d.ctx, root, "jobs/never")
	d.must(err)
	d.must(fsys.Remove(d.ctx, never))
	if got := d.names("jobs"); got != "essay" {
		t.Errorf("jobs has %s", got)
	}
}

// names lists a directory.
func (d *desk) names(path string) string {
	d.Helper()
	n, err := fsys.WalkPath(d.ctx, d.svc.Root(), path)
	d.must(err)
	list, err := fsys.List(d.ctx, n)
	d.must(err)
	var names []string
	for _, e := range list {
		names = append(names, e.Name)
	}
	return strings.Join(names, " ")
}

// removeAll does what rm -r does.
func (d *desk) removeAll(path string) {
	d.Helper()
	dir, err := fsys.WalkPath(d.ctx, d.svc.Root(), path)
	d.must(err)
	list, err := fsys.List(d.ctx, dir)
	d.must(err)
	for _, e := range list {
		n, err := fsys.Walk(d.ctx, dir, e.Name)
		d.must(err)
		d.must(fsys.Remove(d.ctx, n))
		if _, err := fsys.Walk(d.ctx, dir, e.Name); fsys.CodeOf(err) != fsys.NotExist {
			d.Errorf("%s/%s was removed, and Walk says %v", path, e.Name, err)
		}
	}
	if left := d.names(path); left != "" {
		d.Errorf("%s still has %s", path, left)
	}
	d.must(fsys.Remove(d.ctx, dir))
	if _, err := fsys.WalkPath(d.ctx, d.svc.Root(), path); fsys.CodeOf(err) != fsys.NotExist {
		d.Errorf("%s was removed, and Walk says %v", path, err)
	}
}

func TestRemove(t *testing.T) {
	d := newDesk(t)
	n := d.ask(say("use 0 0;say "+strings.Repeat("long ", 20_000), `"idempotency_key":"k"`))
	d.read("jobs/" + n + "/result")
	before := d.keys()
	d.removeAll("jobs/1")
	if got := d.names("jobs"); got != "" {
		t.Errorf("jobs has %s", got)
	}
	if _, err := fsys.WalkPath(d.ctx, d.svc.Root(), "jobs/k"); fsys.CodeOf(err) != fsys.NotExist {
		t.Errorf("jobs/k: %v", err)
	}
	for _, key := range d.keys() {
		if key != "compute/next" && key != "compute/totals" {
			t.Errorf("left of %d keys: %s", len(before), key)
		}
	}
	if n := d.ask(say("y", `"idempotency_key":"k"`)); n != "2" {
		t.Errorf("the next job is %s", n)
	}
	d.read("jobs/2/result")
}

// keys are those of the service.
func (d *desk) keys() (keys []string) {
	d.Helper()
	for p, err := range store.All(d.ctx, d.db, "compute/") {
		d.must(err)
		keys = append(keys, p.Key)
	}
	return keys
}

func TestRemoveWhatRuns(t *testing.T) {
	d := newDesk(t)
	n := d.ask(say("use 1 1;begin;wait forever", `"max_cost_microusd":100`))
	d.begun(n)
	h, err := fsys.OpenPath(d.ctx, d.svc.Root(), "jobs/1/result", fsys.Read)
	d.must(err)
	d.removeAll("jobs/1")
	if b, err := fsys.ReadAll(d.ctx, h); err != nil || !strings.Contains(string(b), "cancelled") {
		t.Errorf("who waited for the result got %q, %v", b, err)
	}
	d.money(0, 20)
	if got := d.read("usage"); !strings.Contains(got, `"jobs":{"awaiting-approval":0,"cancelled":0,"done":0,"failed":0,"queued":0,"running":0}`) {
		t.Errorf("usage: %s", got)
	}
	for _, key := range d.keys() {
		if key != "compute/next" && key != "compute/totals" {
			t.Errorf("left: %s", key)
		}
	}
	if got := d.names("jobs"); got != "" {
		t.Errorf("jobs has %s", got)
	}
}

// A finished job is one look-up away however many there are.
func TestManyJobs(t *testing.T) {
	d := newDesk(t)
	for i := range 300 {
		d.ask(say("use 0 0;x", fmt.Sprintf(`"idempotency_key":"job %d"`, i)))
	}
	d.read("jobs/300/result")
	if list := strings.Fields(d.names("jobs")); len(list) != 300 || list[0] != "1" || list[299] != "300" {
		t.Errorf("%d jobs are listed", len(list))
	}
	if got := d.read("jobs/job 7/status"); !strings.Contains(got, `"job":8,`) {
		t.Errorf("got %s", got)
	}
}
