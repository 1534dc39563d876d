//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/volume"

	"agent9/conformance/daemon"
	"agent9/conformance/engine"
	"agent9/fsys"
)

// A ward is a daemon with one provider of sandboxes, and what a test knows of
// that.
type ward struct {
	*daemon.Daemon
	driver   string
	image    string           // empty: the provider's own
	enforces []string         // limits
	disk     string           // how that is limited
	registry *engine.Registry // of docker
	left     func() []string  // of sandboxes, on the machine or the engine
}

// TestEnds runs sessions that end as no session should: each in a state that
// says what happened, with its money settled, and leaving nothing.
func TestEnds(t *testing.T) {
	daemon.HelperFor(t)
	t.Run("bwrap", func(t *testing.T) {
		t.Parallel()
		w := &ward{Daemon: daemon.Start(t, "--containers", "main=bwrap:"), driver: "bwrap"}
		r := w.RootWith(t, "neighbour")
		if h := r.Read("agents/neighbour/containers/providers/main/health"); !strings.Contains(h, `"ok":true`) {
			t.Skip(h)
		}
		w.left = func() []string {
			left, _ := filepath.Glob(w.Data() + "/containers/main/*/*")
			return left
		}
		w.all(t)
		w.nothingLeft(t)
	})
	t.Run("docker", func(t *testing.T) {
		t.Parallel()
		e := engine.Start(t)
		w := &ward{Daemon: daemon.Start(t, "--containers", "main=docker:"+e.Host), driver: "docker", image: e.Busybox(t)}
		w.registry = engine.StartRegistry(t, e.Root(t))
		w.left = func() []string { return onEngine(t, e) }
		w.RootWith(t, "neighbour")
		w.all(t)
		w.nothingLeft(t)
		t.Run("the engine crashes", func(t *testing.T) { w.engineCrashes(t, e) })
		w.nothingLeft(t)
	})
}

// onEngine lists what sandboxes have left on an engine; what they are made of
// stays.
func onEngine(t *testing.T, e *engine.Engine) (left []string) {
	ctx := context.Background()
	all, err := e.API.ContainerList(ctx, container.ListOptions{All: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		if len(c.Names) > 0 { // else it is being removed
			left = append(left, "container "+c.Names[0])
		}
	}
	volumes, err := e.API.VolumeList(ctx, volume.ListOptions{Filters: filters.NewArgs()})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range volumes.Volumes {
		left = append(left, "volume "+v.Name)
	}
	return left
}

// nothingLeft waits until there is nothing of any sandbox.
func (w *ward) nothingLeft(t *testing.T) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("left: %v", w.left())
		}
	}()
	daemon.Eventually(t, "nothing is left of the sandboxes", func() bool { return len(w.left()) == 0 })
}

// all runs every ending that the provider can have, together: they wait, most
// of the time.
func (w *ward) all(t *testing.T) {
	var info struct {
		Enforced []string
		Disk     string
	}
	daemon.Parse(t, w.As(t).Root().Read("agents/neighbour/containers/providers/main/info"), &info)
	w.enforces, w.disk = info.Enforced, info.Disk
	var together sync.WaitGroup
	for i, e := range endings {
		if e.only != "" && e.only != w.driver {
			continue
		}
		together.Go(func() {
			t.Run(e.what, func(t *testing.T) { w.session(t, "patient"+strconv.Itoa(i), e) })
		})
	}
	if w.registry != nil {
		together.Go(func() { t.Run("pulls", w.pulls) })
	}
	together.Wait()
	select {
	case <-w.Exited:
		t.Error("the daemon has ended")
	default:
	}
}

// An ending is a session that ends badly.
type ending struct {
	what  string
	only  string         // provider; empty: each
	needs string         // limit
	rules map[string]any // of the policy
	// request is without the image; the shell is given script, if there is one.
	request map[string]any
	script  string
	// during does something to the session while it runs, or provisions.
	during              func(p *patient)
	state, code, reason string
	kernel              string // the code where the kernel bounds the disk
	exit                int
	after               func(p *patient, r sessionResult)
}

// A patient is a session that ends badly, of an agent of its own.
type patient struct {
	t     *testing.T
	w     *ward
	r     *daemon.Tree
	agent string // its directory
	path  string // the session's directory
	mark  string // is in the command line of its processes
	begun time.Time
}

type sessionResult struct {
	State    string
	ExitCode int `json:"exit_code"`
	Commands []struct {
		ExitCode int `json:"exit_code"`
		Reason   string
		Stdout   int64 `json:"stdout_bytes"`
		Lost     int64 `json:"lost_bytes"`
	}
	Usage struct {
		OOMKills int64 `json:"oom_kills"`
	}
	Cost  int64 `json:"cost_microusd"`
	Error struct{ Code, Reason string }
}

// prices are high enough to be seen.
var prices = map[string]any{"price_per_session_microusd": 100, "price_per_second_microusd": 10, "stop_grace_s": 1}

func with(more ...map[string]any) string {
	all := map[string]any{}
	for _, m := range more {
		for k, v := range m {
			all[k] = v
		}
	}
	b, _ := json.Marshal(all)
	return string(b)
}

// admit makes an agent with a policy.
func (w *ward) admit(t *testing.T, name string, rules map[string]any) *patient {
	t.Helper()
	p := &patient{t: t, w: w, r: w.RootWith(t, name), agent: "agents/" + name + "/", mark: "agent9-ends-" + w.driver + "-" + name + "."}
	p.r.Write(p.agent+"containers/policy", with(prices, rules))
	return p
}

// asks begins the session.
func (p *patient) asks(request map[string]any, script string) {
	p.t.Helper()
	own := map[string]any{"image": p.w.image}
	if script != "" {
		own["commands"] = []string{": " + p.mark + "\n" + script}
	}
	p.begun = time.Now()
	p.path = p.agent + "containers/sessions/" + p.r.Ask(p.agent+"containers/new", with(own, request))
}

func (w *ward) session(t *testing.T, name string, e ending) {
	if e.needs != "" && !slices.Contains(w.enforces, e.needs) {
		t.Skip("the provider cannot enforce the limit of " + e.needs + " on this machine")
	}
	p := w.admit(t, name, e.rules)
	p.asks(e.request, e.script)
	if e.during != nil {
		e.during(p)
	}
	r := p.result()
	if e.kernel != "" && w.disk != "walk" {
		e.code, e.reason = e.kernel, ""
	}
	if r.State != e.state || r.Error.Code != e.code || !strings.Contains(r.Error.Reason, e.reason) || e.exit != 0 && r.ExitCode != e.exit {
		t.Errorf("got %+v, want %s, %s, %q, %d; it wrote\n%.2000s", r, e.state, e.code, e.reason, e.exit, p.r.Read(p.path+"/output"))
	}
	p.quiet()
	p.settled(r.Cost)
	if e.after != nil {
		e.after(p, r)
	}
	p.remove(p.path)
	daemon.Has(t, "the sessions", "."+p.r.List(p.agent+"containers/sessions")+".", "..")
}

// result waits for the end of the session.
func (p *patient) result() (r sessionResult) {
	p.t.Helper()
	daemon.Parse(p.t, p.r.Read(p.path+"/result"), &r)
	return r
}

// settled checks the money: nothing is held, and cost is what was spent.
func (p *patient) settled(cost int64) {
	p.t.Helper()
	var books struct {
		Held  int64 `json:"held_microusd"`
		Total struct {
			Spent int64 `json:"spent_microusd"`
		}
	}
	daemon.Eventually(p.t, "nothing is held", func() bool {
		daemon.Parse(p.t, p.r.Read(p.agent+"budget/usage"), &books)
		return books.Held == 0
	})
	daemon.Equal(p.t, "spent", books.Total.Spent, cost)
	var mine struct {
		Held  int64 `json:"held_microusd"`
		Spent int64 `json:"spent_microusd"`
	}
	daemon.Parse(p.t, p.r.Read(p.agent+"containers/usage"), &mine)
	if mine.Held != 0 || mine.Spent != cost {
		p.t.Errorf("containers/usage has %+v, the session cost %d", mine, cost)
	}
}

// quiet checks that no process of the session runs.
func (p *patient) quiet() {
	p.t.Helper()
	if pids := p.processes(); len(pids) > 0 {
		p.t.Errorf("these still run: %v", pids)
	}
}

func (p *patient) processes() (running []string) {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range all {
		if line, err := os.ReadFile(file); err == nil && bytes.Contains(line, []byte(p.mark)) {
			running = append(running, file)
		}
	}
	return running
}

// sees waits until the session has written these words.
func (p *patient) sees(words string) {
	p.t.Helper()
	h := p.r.Open(p.path+"/stdout", fsys.Read)
	for all := []byte{}; !bytes.Contains(all, []byte(words)); {
		b := make([]byte, 4096)
		n, err := fsys.ReadAt(daemon.Within(p.t), h, b, int64(len(all)))
		all = append(all, b[:n]...)
		if err != nil || n == 0 {
			p.t.Fatalf("%v after %q; %s", err, all, p.r.Read(p.path+"/status"))
		}
	}
}

// others checks that others get what they ask for.
func (p *patient) others() {
	p.t.Helper()
	const dir = "agents/neighbour/containers/"
	n := p.r.Ask(dir+"new", with(map[string]any{"image": p.w.image, "commands": []string{"echo well"}}))
	daemon.Equal(p.t, "what a neighbour reads", p.r.Read(dir+"sessions/"+n+"/stdout"), "well\n")
	p.r.Read(dir + "sessions/" + n + "/result")
	p.remove(dir + "sessions/" + n)
}

// remove does what rm -r does.
func (p *patient) remove(path string) {
	p.t.Helper()
	ctx := daemon.Within(p.t)
	n, err := fsys.WalkPath(ctx, p.r.Root, path)
	if err == nil {
		var list []fsys.Entry
		if list, err = fsys.List(ctx, n); err == nil {
			for _, e := range list {
				p.remove(path + "/" + e.Name)
			}
		} else if fsys.CodeOf(err) == fsys.NotDir {
			err = nil
		}
	}
	if err == nil {
		err = fsys.Remove(ctx, n)
	}
	if err != nil && fsys.CodeOf(err) != fsys.NotExist {
		p.t.Errorf("removing %s: %v", path, err)
	}
}

func (p *patient) stop() {
	p.t.Helper()
	p.begun = time.Now()
	p.r.Write(p.path+"/ctl", "stop")
}

// took checks how long it took from the beginning, or the stop.
func (p *patient) took(least, most time.Duration) {
	p.t.Helper()
	if took := time.Since(p.begun); took < least || took > most {
		p.t.Errorf("it took %v, not from %v to %v", took, least, most)
	}
}

const (
	bomb     = "echo begun; (b() { b | b & b; }; b) 2>/dev/null & while :; do :; done"
	stubborn = "trap '' TERM INT HUP; (while :; do sleep 0.2; done) & echo begun; while :; do sleep 0.2; done"
	flood    = `i=0; while [ $i -lt 10 ]; do head -c 1000000 /dev/zero | tr '\0' x; sleep 0.1; i=$((i+1)); done`
	flooded  = 10_000_000
)

type limits map[string]any

func limited(l limits) map[string]any { return map[string]any{"limits": l} }

var endings = []ending{
	{
		what: "out of memory", needs: "memory", request: limited(limits{"memory_mb": 64}),
		script: "head -c 500000000 /dev/zero | tail -c 400000000 >/dev/null",
		state:  "failed", code: "oom", reason: "ran out of memory", exit: 137,
		after: func(p *patient, r sessionResult) {
			if r.Usage.OOMKills == 0 || len(r.Commands) != 1 || r.Commands[0].Reason != "oom" {
				p.t.Errorf("it ended with %+v", r)
			}
		},
	},
	{
		what: "a fork bomb runs out of time", needs: "pids", request: limited(limits{"pids": 128, "time_s": 2}), script: bomb,
		during: func(p *patient) { p.sees("begun"); p.others() },
		state:  "failed", code: "timeout", reason: "ran out of time", exit: 124,
		after: func(p *patient, _ sessionResult) { p.others() },
	},
	{
		what: "a fork bomb is stopped", needs: "pids", request: limited(limits{"pids": 128, "time_s": 60}), script: bomb,
		during: func(p *patient) { p.sees("begun"); p.stop() },
		state:  "stopped", code: "canceled", reason: "stopped",
		after: func(p *patient, _ sessionResult) { p.took(0, 20*time.Second); p.others() },
	},
	{
		what: "SIGTERM is ignored, and time passes", request: limited(limits{"time_s": 1}), script: stubborn,
		state: "failed", code: "timeout", reason: "ran out of time", exit: 124,
		after: func(p *patient, _ sessionResult) { p.took(time.Second, 20*time.Second) },
	},
	{
		what: "SIGTERM is ignored, and the session stopped", request: limited(limits{"time_s": 60}), script: stubborn,
		during: func(p *patient) { p.sees("begun"); p.stop() },
		state:  "stopped", code: "canceled", reason: "stopped",
		after: func(p *patient, _ sessionResult) { p.took(time.Second, 20*time.Second) },
	},
	{
		what: "a file is longer than the disk", needs: "disk", request: limited(limits{"disk_mb": 16}),
		script: "head -c 64000000 /dev/zero >big",
		state:  "failed", code: "disk", reason: "more than the disk limit",
	},
	{
		what: "many files are more than the disk", needs: "disk", request: limited(limits{"disk_mb": 16, "time_s": 20}),
		script: "i=0; while :; do head -c 1000000 /dev/zero >f$i || exit 28; i=$((i+1)); sleep 0.02; done",
		state:  "failed", code: "disk", reason: "more than the disk limit", kernel: "exit",
	},
	{
		what: "10 MB/s that nobody reads", script: flood, state: "done",
		after: func(p *patient, r sessionResult) {
			if got := p.r.Read(p.path + "/stdout"); got != strings.Repeat("x", flooded) {
				p.t.Errorf("%d bytes of %d, ending in %q", len(got), flooded, got[max(0, len(got)-100):])
			}
		},
	},
	{
		what: "10 MB/s that nobody reads, and no room for it", script: flood,
		rules: map[string]any{"output_bytes": 3_000_000}, state: "done",
		after: func(p *patient, r sessionResult) {
			c := r.Commands[0]
			kept := strings.Repeat("x", int(flooded-c.Lost))
			want := fmt.Sprintf("%s\n[lost %d bytes of stdout: the limit of the output is 3000000 bytes]\n", kept, c.Lost)
			if got := p.r.Read(p.path + "/stdout"); got != want || c.Lost < flooded-3_000_000 || c.Stdout != int64(len(kept)) {
				p.t.Errorf("%d bytes, ending in %q; %+v", len(got), got[max(0, len(got)-100):], c)
			}
		},
	},
	{
		what: "no such image", only: "bwrap", request: map[string]any{"image": "nowhere"}, script: "true",
		state: "failed", code: "not-found", reason: "there is no image nowhere",
	},
	{
		what: "no such image, and no pull", only: "docker", request: map[string]any{"image": "nowhere"}, script: "true",
		state: "failed", code: "not-found", reason: `may not pull it: that takes "nowhere" in "allow_images"`,
	},
}

// pulls is what becomes of sessions whose image has to be pulled, one after
// another: an engine pulls an image once, whoever asks for it.
func (w *ward) pulls(t *testing.T) {
	p := w.admit(t, "puller", map[string]any{"allow_images": []string{w.registry.Host + "/*"}})
	image := func(name string) map[string]any { return map[string]any{"image": w.registry.Host + "/" + name} }
	stalled := func() *engine.Stall {
		s := w.registry.Stall()
		p.asks(image("box"), "echo ran")
		happens(t, "the pull begins", s.Asked)
		return s
	}
	s := stalled()
	daemon.Has(t, "the status", p.r.Read(p.path+"/status"), `"state":"provisioning"`)
	daemon.Has(t, "the output", p.r.Tail(p.path+"/output"), "pulling "+w.registry.Host)
	p.stop()
	if r := p.result(); r.State != "stopped" || r.Error.Code != "canceled" || r.Cost != 0 {
		t.Errorf("stopped while its image was pulled: %+v", r)
	}
	happens(t, "the pull ends", s.Left)
	p.settled(0)
	p.remove(p.path)

	s = stalled()
	p.remove(p.path)
	happens(t, "the pull ends", s.Left)
	p.settled(0)
	daemon.Equal(t, "the sessions", p.r.List(p.agent+"containers/sessions"), "")

	p.asks(image("none"), "true")
	if r := p.result(); r.State != "failed" || r.Error.Code != "not-found" || !strings.Contains(r.Error.Reason, "pulling "+w.registry.Host+"/none") || r.Cost != 0 {
		t.Errorf("an image that the registry does not have: %+v", r)
	}
	p.remove(p.path)
	_, err := fsys.Converse(daemon.Within(t), p.r.Root, p.agent+"containers/new", []byte(`{"commands":["true"],"image":"elsewhere/box"}`))
	daemon.Refused(t, "an image that the policy does not allow", err, fsys.Permission, "the policy does not allow the image elsewhere/box")
	p.settled(0)

	p.asks(image("box"), "echo ran")
	r := p.result()
	if r.State != "done" || p.r.Read(p.path+"/stdout") != "ran\n" {
		t.Errorf("a pull after those that were cut off: %+v", r)
	}
	p.settled(r.Cost)
	p.remove(p.path)
}

// happens waits for c to be closed.
func happens(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(daemon.Limit):
		t.Fatal("this did not come about: " + what)
	}
}

// engineCrashes kills the engine below a session that runs. The session ends,
// can be removed, and when the engine is back nothing is left of it.
func (w *ward) engineCrashes(t *testing.T, e *engine.Engine) {
	p := w.admit(t, "orphan", nil)
	p.asks(map[string]any{"keep": true}, "echo begun")
	p.sees("begun")
	x := p.path + "/exec/" + p.r.Ask(p.path+"/exec/new", ": "+p.mark+"; echo begun; while :; do sleep 0.2; done")
	if _, err := fsys.ReadAt(daemon.Within(t), p.r.Open(x+"/stdout", fsys.Read), make([]byte, 16), 0); err != nil {
		t.Fatal(err)
	}
	e.Crash(t)
	r := p.result()
	if r.State != "failed" || r.Error.Code != "provider" || !strings.HasPrefix(r.Error.Reason, "the connection to the sandbox broke: the container engine") {
		t.Errorf("its engine crashed: %+v", r)
	}
	daemon.Has(t, "its command", p.r.Read(x+"/result"), "the connection to the sandbox broke")
	p.settled(r.Cost)
	p.remove(p.path)
	p.asks(nil, "true")
	if none := p.result(); none.State != "failed" || none.Error.Code != "provider" || !strings.Contains(none.Error.Reason, "does not answer") {
		t.Errorf("without an engine: %+v", none)
	}
	p.settled(r.Cost)
	p.remove(p.path)
	e.Restart(t)
	p.others()
	daemon.Eventually(t, "its processes end", func() bool { return len(p.processes()) == 0 })
}
