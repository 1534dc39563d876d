//go:build unix

package containers_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"agent9/fsys"
	"agent9/fsys/fstest"
	"agent9/namespace/budget"
	"agent9/providers/sandboxes"
	"agent9/providers/sandboxes/fake"
	"agent9/services/containers"
	"agent9/services/internal/wall"
	"agent9/store"
	"agent9/store/mem"
)

// A yard is a service with a fake provider that is paid from an account.
type yard struct {
	*testing.T
	db      store.Updater
	ctx     context.Context // who asks
	account *budget.Account
	asking  *budget.Approvals // nil: nobody is asked
	time    atomic.Int64      // how much has passed besides what really did
	wall    *wall.Clock       // how the clock has been set
	fake    *fake.Provider
	config  containers.Config // what a test sets of it
	svc     *containers.Service
	stop    context.CancelFunc

	mu     sync.Mutex
	events []string
	heard  chan struct{} // closed and made anew with each event
}

func newYard(t *testing.T, opts fake.Options) *yard {
	t.Helper()
	p, err := fake.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	y := &yard{T: t, db: mem.New(), wall: &wall.Clock{}, fake: p, heard: make(chan struct{})}
	y.open()
	return y
}

// open opens the service on what the database has.
func (y *yard) open() {
	y.Helper()
	var err error
	y.account, err = budget.Open(y.Context(), store.Sub(y.db, "budget/"), budget.Options{Name: "alice", Now: y.now})
	y.must(err)
	y.ctx = budget.With(fsys.WithCaller(y.Context(), "alice"), y.account)
	life, stop := context.WithCancel(context.WithoutCancel(y.Context()))
	y.stop = stop
	c := y.config
	c.Store, c.Account, c.Now, c.Note = store.Sub(y.db, "containers/"), y.account, y.now, y.note
	c.Agent, c.Owner = "alice", "a1"
	c.Providers = []*sandboxes.Runner{sandboxes.NewRunner("fake", y.fake)}
	if y.asking != nil {
		y.asking.End()
		y.asking = budget.NewApprovals(life, y.account)
		c.Approvals = y.asking
	}
	y.svc, err = containers.Open(life, c)
	y.must(err)
	if y.asking != nil {
		y.must(y.asking.Start(y.Context()))
	}
	svc := y.svc
	y.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
		defer cancel()
		if err := svc.Close(ctx); err != nil {
			y.Error(err)
		}
	})
}

// die ends the service as a crash does: what runs is gone, and nothing of that
// is recorded.
func (y *yard) die() *yard {
	y.Helper()
	again := &yard{T: y.T, db: freeze(y.T, y.db), wall: y.wall, fake: fake.Reopen(y.fake.Dir(), fake.Options{}), config: y.config, heard: make(chan struct{})}
	again.time.Store(y.time.Load())
	if y.asking != nil {
		again.asking = budget.NewApprovals(context.Background(), y.account)
	}
	y.fake.Crash()
	y.stop()
	return again
}

// freeze returns a copy of what db has now.
func freeze(t *testing.T, db store.Store) store.Updater {
	t.Helper()
	now := mem.New()
	for p, err := range store.All(t.Context(), db, "") {
		if err == nil {
			err = now.Put(t.Context(), p.Key, p.Value)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return now
}

func (y *yard) now() time.Time { return y.wall.Now().Add(time.Duration(y.time.Load())) }

func (y *yard) note(_ store.Store, event string, _ any) error {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.events = append(y.events, event)
	close(y.heard)
	y.heard = make(chan struct{})
	return nil
}

// hear waits for an event that begins so.
func (y *yard) hear(event string) {
	y.Helper()
	timeout := time.After(90 * time.Second)
	for {
		y.mu.Lock()
		heard := y.heard
		for _, e := range y.events {
			if strings.HasPrefix(e, event) {
				y.mu.Unlock()
				return
			}
		}
		y.mu.Unlock()
		select {
		case <-heard:
		case <-timeout:
			y.Fatalf("no event %s; there were %v", event, y.events)
		}
	}
}

func (y *yard) must(err error) {
	y.Helper()
	if err != nil {
		y.Fatal(err)
	}
}

// ask submits req and returns the session's number.
func (y *yard) ask(req string) string {
	y.Helper()
	return y.converse("new", req)
}

func (y *yard) converse(path, req string) string {
	y.Helper()
	reply, err := fsys.Converse(y.ctx, y.svc.Root(), path, []byte(req))
	if err != nil {
		y.Fatalf("%s: %s: %v", path, req, err)
	}
	return strings.TrimSpace(string(reply))
}

func (y *yard) refused(path, req string, code fsys.Code, reason string) {
	y.Helper()
	_, err := fsys.Converse(y.ctx, y.svc.Root(), path, []byte(req))
	if err == nil || fsys.CodeOf(err) != code || !strings.Contains(fsys.ReasonOf(err), reason) {
		y.Errorf("%.80s: got %v, want %v: %s", req, err, code, reason)
	}
}

func (y *yard) read(path string) string {
	y.Helper()
	ctx, cancel := context.WithTimeout(y.ctx, 90*time.Second)
	defer cancel()
	b, err := fsys.ReadFile(ctx, y.svc.Root(), path)
	if err != nil {
		y.Fatalf("%s: %v", path, err)
	}
	return string(b)
}

func (y *yard) setPolicy(doc string) error {
	return fsys.WriteFile(y.ctx, y.svc.Policy(), "", []byte(doc))
}

// shown is the policy as its file shows it.
func (y *yard) shown() string {
	y.Helper()
	b, err := fsys.ReadFile(y.ctx, y.svc.Policy(), "")
	y.must(err)
	return string(b)
}

func (y *yard) write(path, text string) error {
	return fsys.WriteFile(y.ctx, y.svc.Root(), path, []byte(text))
}

// follow reads the stream at path until it has text, and returns all of it.
func (y *yard) follow(path, text string) string {
	y.Helper()
	ctx, cancel := context.WithTimeout(y.ctx, 90*time.Second)
	defer cancel()
	h, err := fsys.OpenPath(ctx, y.svc.Root(), path, fsys.Read)
	y.must(err)
	defer h.Close()
	var all []byte
	for p := make([]byte, 4096); !strings.Contains(string(all), text); {
		n, err := fsys.ReadAt(ctx, h, p, int64(len(all)))
		all = append(all, p[:n]...)
		if err != nil || n == 0 {
			y.Fatalf("%s: %v after %q, waiting for %q", path, err, all, text)
		}
	}
	return string(all)
}

type status struct {
	State    containers.State `json:"state"`
	ExitCode *int             `json:"exit_code"`
	Held     budget.Micros    `json:"held_microusd"`
	Cost     budget.Micros    `json:"cost_microusd"`
	Error    struct {
		Code, Reason string
	}
}

func (y *yard) status(n string) status {
	y.Helper()
	var s status
	y.must(json.Unmarshal([]byte(y.read("sessions/"+n+"/status")), &s))
	return s
}

type result struct {
	State    containers.State `json:"state"`
	ExitCode *int             `json:"exit_code"`
	Commands []struct {
		Command  string
		ExitCode int `json:"exit_code"`
		Reason   string
		Signal   string
		Stdout   int64 `json:"stdout_bytes"`
		Stderr   int64 `json:"stderr_bytes"`
		Lost     int64 `json:"lost_bytes"`
	}
	Cost  budget.Micros `json:"cost_microusd"`
	Error struct{ Code, Reason string }
}

// ended waits for the end of session n and checks how it ended.
func (y *yard) ended(n string, want containers.State, why string) result {
	y.Helper()
	var r result
	y.must(json.Unmarshal([]byte(y.read("sessions/"+n+"/result")), &r))
	if r.State != want || !strings.Contains(r.Error.Code+": "+r.Error.Reason, why) {
		y.Errorf("session %s: got %+v, want %s, %q; it wrote %q", n, r, want, why, y.read("sessions/"+n+"/output"))
	}
	return r
}

// money checks what is held and spent, in the budget and by the service.
func (y *yard) money(held, spent budget.Micros) {
	y.Helper()
	b, err := y.account.Usage(y.ctx)
	y.must(err)
	var u struct {
		Held  budget.Micros `json:"held_microusd"`
		Spent budget.Micros `json:"spent_microusd"`
	}
	y.must(json.Unmarshal([]byte(y.read("usage")), &u))
	if b.Held != held || b.Total.Spent != spent || u.Held != held || u.Spent != spent {
		y.Errorf("held %d, spent %d in the budget; %+v by the service; want %d and %d", b.Held, b.Total.Spent, u, held, spent)
	}
}

func (y *yard) policy(doc string) {
	y.Helper()
	y.must(y.setPolicy(doc))
}

func (y *yard) eq(got, want any) {
	y.Helper()
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		y.Errorf("got %q, want %q", g, w)
	}
}

func TestACommand(t *testing.T) {
	y := newYard(t, fake.Options{})
	n := y.ask("echo out; echo err >&2; exit 3")
	r := y.ended(n, containers.Failed, "exit: command 1 exited with 3")
	y.eq(*r.ExitCode, 3)
	y.eq(y.read("sessions/"+n+"/stdout"), "out\n")
	y.eq(y.read("sessions/"+n+"/stderr"), "err\n")
	for _, line := range []string{"out\n", "err\n"} {
		if out := y.read("sessions/" + n + "/output"); !strings.Contains(out, line) {
			t.Errorf("the output is %q", out)
		}
	}
	y.eq(r.Commands[0].Stdout, 4)
	y.eq(r.Commands[0].Stderr, 4)
	y.must(fstest.CheckTree(y.ctx, y.svc.Root()))
}

func TestCommandsInTurn(t *testing.T) {
	y := newYard(t, fake.Options{})
	n := y.ask(`{"commands":["echo 1 > a",{"argv":["cat","a"]},{"command":"cat; echo $X$Y","stdin":"in ","env":{"Y":"y"}}],"env":{"X":"x"}}`)
	y.eq(len(y.ended(n, containers.Done, "").Commands), 3)
	y.eq(y.read("sessions/"+n+"/stdout"), "1\nin xy\n")
	n = y.ask(`{"commands":["false","echo no"]}`)
	y.eq(len(y.ended(n, containers.Failed, "exit: command 1 exited with 1").Commands), 1)
	n = y.ask(`{"commands":["false","echo yes"],"continue_on_error":true}`)
	y.eq(len(y.ended(n, containers.Failed, "exit: command 1 exited with 1").Commands), 2)
	y.eq(y.read("sessions/"+n+"/stdout"), "yes\n")
	n = y.ask(`{"commands":[{"command":"while :; do sleep 1; done","time_s":1}]}`)
	y.eq(y.ended(n, containers.Failed, "timeout: command 1 ran out of time").Commands[0].ExitCode, 124)
	n = y.ask(`{"commands":["kill -9 $$"]}`)
	y.eq(y.ended(n, containers.Failed, "SIGKILL").Commands[0].ExitCode, 137)
	n = y.ask(`{"commands":["no-such-program-here"]}`)
	y.eq(y.ended(n, containers.Failed, "exit: command 1 exited with 127").Commands[0].ExitCode, 127)
}

func TestRefusals(t *testing.T) {
	y := newYard(t, fake.Options{})
	for _, c := range []struct {
		req    string
		code   fsys.Code
		reason string
	}{
		{`{}`, fsys.Invalid, "nothing to do"},
		{`{"comands":["ls"]}`, fsys.Invalid, "unknown field"},
		{`{"commands":[{"argv":[]}]}`, fsys.Invalid, "command 1: give command"},
		{`{"commands":[{"command":"x","tty":true}]}`, fsys.Invalid, "exec/new"},
		{`{"commands":["x"],"files":{"../a":""}}`, fsys.Invalid, "not a path below the workspace"},
		{`{"commands":["x"],"files":{"/etc/a":""}}`, fsys.Invalid, "not a path below the workspace"},
		{`{"commands":["x"],"limits":{"time_s":0}}`, fsys.Invalid, "time_s is from 1"},
		{`{"commands":["x"],"limits":{"memory_mb":1000000}}`, fsys.Invalid, "memory_mb is from 1 to 8192"},
		{`{"commands":["x"],"limits":{"cpus":"1"}}`, fsys.Invalid, "not a number such as 1 or 0.5"},
		{`{"commands":["x"],"limits":{"network":true}}`, fsys.Permission, "no network"},
		{`{"commands":["x"],"provider":"nobody"}`, fsys.NotExist, "there are: fake"},
		{`{"commands":["x"],"workspace":"a/b"}`, fsys.Invalid, "workspace"},
		{`{"commands":["x"],"env":{"A=B":""}}`, fsys.Invalid, "env"},
		{`{"commands":["x"],"max_cost_microusd":-1}`, fsys.Invalid, "max_cost_microusd"},
		{`{"repo":{"url":"--upload-pack=x"}}`, fsys.Invalid, "not the URL"},
		{`{"repo":{"url":"ext::sh -c x"}}`, fsys.Invalid, "not the URL"},
		{`{"repo":{"url":"https://h/r","ref":"-x"}}`, fsys.Invalid, "not a branch"},
		{`{"repo":{"url":"https://u:p@h/r"}}`, fsys.Invalid, "cannot have a password"},
		{`{"repo":{"url":"http://h/r","auth":{"secret":"s"}}}`, fsys.Invalid, "for https only"},
		{`{"repo":{"url":"https://h/r","subdir":"../x"}}`, fsys.Invalid, "subdir"},
	} {
		y.refused("new", c.req, c.code, c.reason)
	}
	y.money(0, 0)
	y.policy(`{"block_images":["evil*"],"allow_images":["fake","good/*","evil:1"]}`)
	y.refused("new", `{"commands":["x"],"image":"docker.io/library/evil"}`, fsys.Permission, "does not allow the image")
	y.refused("new", `{"commands":["x"],"image":"other"}`, fsys.Permission, "does not allow the image")
	n := y.ask(`{"commands":["x"],"image":"good/x"}`)
	y.ended(n, containers.Failed, "not-found: there is no image good/x")
	for _, doc := range []string{`{"require_limits":"some"}`, `{"limits":{"time_s":0}}`, `{"provider":"x"}`, `{"git_suffix":"<"}`, `{"x":1}`, `{"allow_images":["["]}`} {
		if err := y.setPolicy(doc); fsys.CodeOf(err) != fsys.Invalid || err == nil {
			t.Errorf("%s: %v", doc, err)
		}
	}
}

// An image is pulled if the policy says that images are, and names it.
func TestPull(t *testing.T) {
	y := newYard(t, fake.Options{Remote: []string{"far/one", "far/two"}})
	for _, c := range []struct {
		policy, image, want string
	}{
		{`{}`, "far/one", `not-found: the provider fake has no image far/one, and may not pull it: that takes "far/one" in "allow_images", in containers/policy`},
		{`{"pull":false}`, "far/one", `that takes "pull" to be true and "far/one" in "allow_images", in`},
		{`{"pull":false,"allow_images":["far/*"]}`, "far/one", `that takes "pull" to be true, in`},
		{`{"allow_images":["far/*"]}`, "far/none", "not-found: there is no image far/none"},
		{`{"allow_images":["far/*"]}`, "far/one", ""},
		{`{}`, "far/one", ""}, // it is there now
		{`{"default_image":"far/two"}`, "", `that takes "far/two" in "allow_images"`},
		{`{"default_image":"far/two","allow_images":["far/two"]}`, "", ""},
	} {
		y.policy(c.policy)
		state := containers.Done
		if c.want != "" {
			state = containers.Failed
		}
		y.ended(y.ask(`{"commands":["true"],"image":"`+c.image+`"}`), state, c.want)
	}
	y.money(0, 0)
}

func TestPolicyIsWhatItWas(t *testing.T) {
	y := newYard(t, fake.Options{})
	doc := y.shown()
	if !strings.Contains(doc, `"cpus":1,`) {
		t.Error(doc)
	}
	y.policy(strings.Replace(doc, `"cpus":1,`, `"cpus":0.25,`, 1))
	y.eq(y.shown(), strings.Replace(doc, `"cpus":1,`, `"cpus":0.25,`, 1))
}

func TestAKeyIsOneSession(t *testing.T) {
	y := newYard(t, fake.Options{})
	req := `{"commands":["echo once"],"idempotency_key":"k"}`
	n := y.ask(req)
	y.eq(y.ask(`{"idempotency_key":"k", "commands":["echo once"]}`), n)
	y.ended(n, containers.Done, "")
	y.eq(y.ask(req), n)
	y.eq(y.read("sessions/k/stdout"), "once\n")
	y.refused("new", `{"commands":["echo twice"],"idempotency_key":"k"}`, fsys.Exist, "another request")
	dir, err := fsys.WalkPath(y.ctx, y.svc.Root(), "sessions/k")
	y.must(err)
	y.must(fsys.Remove(y.ctx, dir))
	if again := y.ask(req); again == n {
		t.Error("the key of a session that was removed stands for it")
	}
}

func TestFilesOfTheRequest(t *testing.T) {
	y := newYard(t, fake.Options{})
	n := y.ask(`{"commands":["cat a/b c; cat env.json"],"files":{"a/b":"text\n","c":{"base64":"AAEC"}}}`)
	y.ended(n, containers.Done, "")
	out := y.read("sessions/" + n + "/stdout")
	if !strings.HasPrefix(out, "text\n\x00\x01\x02{") || !strings.Contains(out, `"agent":"alice","session":`+n) {
		t.Errorf("the program saw %q", out)
	}
}

func TestTheAgentIsInside(t *testing.T) {
	y := newYard(t, fake.Options{})
	served := make(chan string, 1)
	y.config.Serve = func(_ context.Context, _ string, conn net.Conn) {
		b := make([]byte, 5)
		n, _ := conn.Read(b)
		served <- string(b[:n])
		fmt.Fprint(conn, "world")
	}
	y.open()
	n := y.ask(`{"keep":true,"commands":["echo up"]}`)
	y.follow("sessions/"+n+"/output", "up")
	var env struct{ Address, Socket string }
	y.must(json.Unmarshal([]byte(y.read("sessions/"+n+"/files/workspace/env.json")), &env))
	y.eq(env.Address, "unix:"+env.Socket)
	conn, err := net.Dial("unix", env.Socket)
	y.must(err)
	defer conn.Close()
	fmt.Fprint(conn, "hello")
	y.eq(<-served, "hello")
	b := make([]byte, 5)
	_, err = conn.Read(b)
	y.must(err)
	y.eq(string(b), "world")
}
