package tools_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"agent9/fsys"
	"agent9/namespace/budget"
	provider "agent9/providers/tools"
	"agent9/services/tools"
	"agent9/store"
	"agent9/store/mem"
)

// A bench is a Service with servers that are made up.
type bench struct {
	t       *testing.T
	ctx     context.Context
	svc     *tools.Service
	db      store.Updater
	account *budget.Account

	mu      sync.Mutex
	config  map[string]json.RawMessage
	stopped error
	events  []string
	specs   []provider.Spec
	broken  error
	live    []*fake
	called  chan struct{} // gets one for a call that is recorded; may be nil
}

// A fake is a server that is made up.
type fake struct {
	b    *bench
	once sync.Once
	done chan struct{}
	err  error
	gate chan struct{} // what the tool wait waits for
}

func (f *fake) About() provider.About { return provider.About{Name: "made up"} }

func (f *fake) List(context.Context) (all []provider.Tool, _ error) {
	for _, name := range []string{"add", "a/b", "schema", "50%", strings.Repeat("x", 300), "add", "wait", "crash", "refuse"} {
		all = append(all, provider.Tool{Name: name, Schema: fsys.Line(map[string]string{"name": name})})
	}
	return all, nil
}

func (f *fake) Call(ctx context.Context, tool string, args json.RawMessage) (json.RawMessage, error) {
	switch tool {
	case "wait":
		select {
		case <-f.gate:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	case "crash":
		f.end(fsys.E(fsys.Unavailable, "it crashed"))
		return nil, f.err
	case "refuse":
		return nil, fsys.E(fsys.Invalid, "not like that")
	}
	return json.RawMessage(`{"content":[],"tool":"` + tool + `","args":` + string(args) + `}`), nil
}

func (f *fake) end(err error) {
	f.once.Do(func() {
		f.err = err
		close(f.done)
	})
}

func (f *fake) Done() <-chan struct{}     { return f.done }
func (f *fake) Err() error                { return f.err }
func (f *fake) Close(ctx context.Context) { f.end(errors.New("closed")) }

func (b *bench) Start(_ context.Context, spec provider.Spec) (provider.Session, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.specs = append(b.specs, spec)
	if b.broken != nil {
		return nil, b.broken
	}
	f := &fake{b: b, done: make(chan struct{}), gate: make(chan struct{})}
	b.live = append(b.live, f)
	return f, nil
}

func newBench(t *testing.T, config string) *bench {
	b := &bench{t: t, ctx: t.Context(), db: mem.New()}
	b.configure(config)
	var err error
	limit := budget.Micros(100)
	if b.account, err = budget.Open(b.ctx, store.Sub(b.db, "budget/"), budget.Options{Name: "alice", Now: time.Now, Defaults: budget.Limits{Total: &limit}}); err != nil {
		t.Fatal(err)
	}
	b.open()
	return b
}

func (b *bench) open() {
	b.t.Helper()
	var err error
	b.svc, err = tools.Open(b.ctx, tools.Options{
		Store: store.Sub(b.db, "tools/"), Provider: b, Account: b.account, Now: time.Now,
		Servers: func() map[string]json.RawMessage { b.mu.Lock(); defer b.mu.Unlock(); return b.config },
		Working: func() error { return b.stopped },
		Secret: func(_ context.Context, name, _ string) ([]byte, error) {
			if name != "key" {
				return nil, fsys.E(fsys.NotExist, "there is no secret "+name)
			}
			return []byte("s3cr3t"), nil
		},
		Note: func(_ store.Store, event string, detail any) error {
			b.mu.Lock()
			defer b.mu.Unlock()
			if event == "tool.called" && b.called != nil {
				b.called <- struct{}{}
			}
			b.events = append(b.events, event+" "+strings.TrimSpace(string(fsys.Line(detail))))
			return nil
		},
	})
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) configure(config string) {
	b.t.Helper()
	var all map[string]json.RawMessage
	if err := json.Unmarshal([]byte(config), &all); err != nil {
		b.t.Fatal(err)
	}
	if err := tools.CheckServers(all); err != nil {
		b.t.Fatal(err)
	}
	b.mu.Lock()
	b.config = all
	b.mu.Unlock()
}

func (b *bench) started() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.specs)
}

// running is how many servers have not ended.
func (b *bench) running() (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, f := range b.live {
		select {
		case <-f.done:
		default:
			n++
		}
	}
	return n
}

func (b *bench) list(path string) string {
	b.t.Helper()
	dir, err := fsys.WalkPath(b.ctx, b.svc.Root(), path)
	if err != nil {
		b.t.Fatal(path, err)
	}
	list, err := fsys.List(b.ctx, dir)
	if err != nil {
		b.t.Fatal(path, err)
	}
	var names []string
	for _, e := range list {
		if _, err := e.Node.Stat(b.ctx); err != nil {
			b.t.Errorf("%s/%s: %v", path, e.Name, err)
		}
		names = append(names, e.Name)
	}
	return strings.Join(names, " ")
}

func (b *bench) read(path string) string {
	b.t.Helper()
	text, err := fsys.ReadFile(b.ctx, b.svc.Root(), path)
	if err != nil {
		b.t.Error(path, err)
	}
	return string(text)
}

func (b *bench) try(path, args string) (string, error) {
	reply, err := fsys.Converse(budget.With(fsys.WithCaller(b.ctx, "alice"), b.account), b.svc.Root(), path, []byte(args))
	return string(reply), err
}

func (b *bench) call(path, args string) string {
	b.t.Helper()
	reply, err := b.try(path, args)
	if err != nil {
		b.t.Error(path, err)
	}
	return reply
}

func (b *bench) fails(path, args string, code fsys.Code, reason string) {
	b.t.Helper()
	reply, err := b.try(path, args)
	if err == nil || fsys.CodeOf(err) != code || !strings.Contains(fsys.ReasonOf(err), reason) {
		b.t.Errorf("%s %s: %q, %v (%v), want %v with %q", path, args, reply, err, fsys.CodeOf(err), code, reason)
	}
}

func (b *bench) spent(held, spent budget.Micros) {
	b.t.Helper()
	u, err := b.account.Usage(b.ctx)
	if err != nil {
		b.t.Fatal(err)
	}
	if u.Held != held || u.Total.Spent != spent {
		b.t.Errorf("held %d, spent %d, want %d and %d", u.Held, u.Total.Spent, held, spent)
	}
}

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func has(t *testing.T, what, got string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(got, w) {
			t.Errorf("%s: %s\nwant %s in it", what, got, w)
		}
	}
}

func TestFiles(t *testing.T) {
	b := newBench(t, `{"one": {"command": ["x"], "env": {"KEY": {"secret": "key"}, "LANG": "C"}}, "two": {"url": "http://localhost/", "headers": {"Authorization": {"secret": "none"}}}}`)
	defer b.svc.Close(b.ctx)
	has(t, "status of what nobody used", b.read("one/status"), `"state":"idle"`)
	equal(t, "started for that", b.started(), 0)
	equal(t, "servers", b.list(""), "one two")
	equal(t, "tools", b.list("one"), "schema status add a%2Fb %73chema 50%25 wait crash refuse")
	has(t, "status", b.read("one/status"), `"state":"running"`, `"reason":"File name too long"`, `"tool":"add","reason":"another tool has this name"`)
	has(t, "schema of all", b.read("one/schema"), `"server":{"name":"made up"}`, `{"name":"a/b"}`)
	has(t, "schema", b.read("one/a%2Fb/schema"), `{"name":"a/b"}`)
	has(t, "call", b.call("one/a%2Fb/call", ` {"n": 1} `), `"tool":"a/b"`, `"args":{"n": 1}`)
	equal(t, "secret", b.specs[0].Env["KEY"]+" "+b.specs[0].Env["LANG"], "s3cr3t C")
	b.fails("one/nothing/call", `{}`, fsys.NotExist, "")
	b.fails("one/add/call", `hello`, fsys.Invalid, "a JSON object")
	b.fails("one/add/call", `[1]`, fsys.Invalid, "a JSON object")

	// One that cannot be started can be seen all the same.
	equal(t, "a server that fails", b.list("two"), "schema status")
	has(t, "its status", b.read("two/status"), `"state":"failing"`, "there is no secret none")
	for _, e := range b.events {
		if strings.Contains(e, "s3cr3t") {
			t.Errorf("a secret is in %s", e)
		}
	}
	has(t, "events", strings.Join(b.events, "\n"), `tool.started {"server":"one","tools":9,`,
		`"server":"one","tool":"a/b","by":"alice"}`, `tool.answered {"call":`, `tool.failed {"server":"two"`)
}

// A server that fails is left alone for a second, and then longer.
func TestBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, `{"one": {"command": ["x"]}}`)
		b.broken = fsys.E(fsys.Unavailable, "no such luck")
		b.fails("one/add/call", `{}`, fsys.Unavailable, "no such luck")
		b.fails("one/add/call", `{}`, fsys.Unavailable, "no such luck; it may be started again in 1s")
		time.Sleep(time.Second)
		b.fails("one/add/call", `{}`, fsys.Unavailable, "no such luck")
		b.fails("one/add/call", `{}`, fsys.Unavailable, "it may be started again in 2s")
		equal(t, "started", b.started(), 2)
		b.broken = nil
		time.Sleep(2 * time.Second)
		b.fails("one/crash/call", `{}`, fsys.Unavailable, "it crashed")
		synctest.Wait()
		has(t, "status", b.read("one/status"), `"state":"failing"`, "it crashed")
		b.fails("one/add/call", `{}`, fsys.Unavailable, "it crashed; it may be started again in 4s")
		time.Sleep(4 * time.Second)
		b.call("one/add/call", `{}`)
		has(t, "status", b.read("one/status"), `"state":"running"`)
		b.fails("one/crash/call", `{}`, fsys.Unavailable, "it crashed")
		synctest.Wait()
		b.fails("one/add/call", `{}`, fsys.Unavailable, "again in 1s") // as a call has succeeded
		b.svc.Close(b.ctx)
	})
}

// A server lives while it is used, and no longer.
func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, `{"one": {"command": ["x"], "idle": "1m", "timeout": "10m"}}`)
		b.call("one/add/call", `{}`)
		time.Sleep(59 * time.Second)
		b.call("one/add/call", `{}`)
		time.Sleep(59 * time.Second)
		equal(t, "running", b.running(), 1)
		done := make(chan struct{})
		go func() {
			b.call("one/wait/call", `{}`)
			close(done)
		}()
		time.Sleep(5 * time.Minute)
		equal(t, "running during a call", b.running(), 1)
		close(b.live[0].gate)
		<-done
		time.Sleep(61 * time.Second)
		synctest.Wait()
		equal(t, "running when idle", b.running(), 0)
		equal(t, "started", b.started(), 1)
		has(t, "status", b.read("one/status"), `"state":"idle"`)
		b.call("one/add/call", `{}`)
		equal(t, "started", b.started(), 2)

		b.configure(`{"one": {"command": ["y"]}}`)
		b.svc.Reconfigured()
		synctest.Wait()
		equal(t, "running after it is configured otherwise", b.running(), 0)
		b.call("one/add/call", `{}`)
		equal(t, "command", b.specs[2].Command[0], "y")
		b.svc.Stop()
		synctest.Wait()
		equal(t, "running after a stop", b.running(), 0)
		b.call("one/add/call", `{}`)
		b.configure(`{}`)
		b.svc.Reconfigured()
		synctest.Wait()
		equal(t, "running when it is named no longer", b.running(), 0)
		b.fails("one/add/call", `{}`, fsys.NotExist, "")
		b.configure(`{"one": {"command": ["y"]}}`)
		b.call("one/add/call", `{}`)
		b.svc.Close(b.ctx)
		equal(t, "running after the end", b.running(), 0)
		b.fails("one/add/call", `{}`, fsys.NotExist, "")
	})
}

func TestLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, `{"one": {"command": ["x"], "timeout": "10s", "max_calls": 2}}`)
		results := make(chan error, 2)
		for range 2 {
			go func() {
				_, err := b.try("one/wait/call", `{}`)
				results <- err
			}()
		}
		synctest.Wait()
		b.fails("one/add/call", `{}`, fsys.Busy, "2 calls of this server are under way")
		for range 2 {
			if err := <-results; fsys.CodeOf(err) != fsys.Timeout || !strings.Contains(fsys.ReasonOf(err), "did not answer within 10s") {
				t.Errorf("a call that takes too long: %v", err)
			}
		}
		b.call("one/add/call", `{}`)
		b.stopped = fsys.E(fsys.Busy, "the agent is stopped")
		b.fails("one/add/call", `{}`, fsys.Busy, "the agent is stopped")
		b.svc.Close(b.ctx)
	})
}

func TestPrice(t *testing.T) {
	b := newBench(t, `{"one": {"command": ["x"], "price_microusd": 40}}`)
	node, err := fsys.WalkPath(b.ctx, b.svc.Root(), "one/add/call")
	if err != nil {
		t.Fatal(err)
	}
	if info, err := node.Stat(b.ctx); err != nil || info.Effect != fsys.Spends {
		t.Errorf("effect: %v, %v", info.Effect, err)
	}
	b.call("one/add/call", `{}`)
	b.spent(0, 40)
	b.fails("one/refuse/call", `{}`, fsys.Invalid, "not like that")
	b.spent(0, 40)
	b.called = make(chan struct{}, 1)
	done := make(chan struct{})
	go func() {
		b.call("one/wait/call", `{}`)
		close(done)
	}()
	<-b.called
	b.fails("one/add/call", `{}`, fsys.Exhausted, "$0.00002 is left")

	// Another daemon, which finds the call cut off.
	open, err := tools.Interrupted(b.ctx, store.Sub(b.db, "tools/"))
	if err != nil || !open {
		t.Errorf("a call under way is not seen: %v", err)
	}
	old := b.svc
	b.open()
	b.spent(0, 80)
	close(b.live[0].gate)
	<-done
	b.spent(0, 80)
	if open, err := tools.Interrupted(b.ctx, store.Sub(b.db, "tools/")); err != nil || open {
		t.Errorf("a call that was settled is still open: %v", err)
	}
	old.Close(b.ctx)
	b.svc.Close(b.ctx)
}

func TestConfig(t *testing.T) {
	for config, want := range map[string]string{
		`{}`:                                            "a command or a url",
		`{"command":["x"],"url":"http://x"}`:            "not both",
		`{"command":[""]}`:                              "command begins with a program",
		`{"url":"file:///etc/passwd"}`:                  "an http or https server",
		`{"url":"http://x","env":{"A":"b"}}`:            "env and dir are for a command",
		`{"command":["x"],"headers":{"A":"b"}}`:         "headers are for a url",
		`{"command":["x"],"env":{"A=":"b"}}`:            "no name of a variable",
		`{"command":["x"],"env":{"A":{"secrets":"b"}}}`: `a text or {"secret": NAME}`,
		`{"command":["x"],"price_microusd":-1}`:         "price_microusd",
		`{"command":["x"],"max_calls":-1}`:              "max_calls",
		`{"command":["x"],"nonsense":1}`:                "nonsense",
		`{"command":["x"],"idle":"soon"}`:               "is not a time such as",
	} {
		err := tools.CheckServers(map[string]json.RawMessage{"one": json.RawMessage(config)})
		if err == nil || fsys.CodeOf(err) != fsys.Invalid || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "tools: one") {
			t.Errorf("%s: %v, want %s", config, err, want)
		}
	}
	if err := tools.CheckServers(map[string]json.RawMessage{"a/b": json.RawMessage(`{"command":["x"]}`)}); fsys.CodeOf(err) != fsys.Invalid {
		t.Errorf("a name with a slash: %v", err)
	}
}
