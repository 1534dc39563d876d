package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"

	"agent9/fsys"
	"agent9/fsys/ninep"
	"agent9/store/files"
	"agent9/store/mem"
)

// A fakeHost is a small stand-in for what a daemon serves: enough for each command
// to be seen at work.
type fakeHost struct {
	t     *testing.T
	goals fsys.Node

	mu     sync.Mutex
	names  []string
	agents map[string]*agent
	tokens []string
	told   []string // commands that ctl files were given
	sent   []string // messages
	asked  []string // requests to models
	job    *fsys.Tape
	answer *fsys.Memory
	state  string // of the job
}

type agent struct {
	*fsys.Table
	host *fakeHost
	name string
	tape *fsys.Tape
	log  *fsys.Memory
}

func newHost(t *testing.T, names ...string) *fakeHost {
	tree, err := files.New(t.Context(), mem.New(), files.Options{})
	if err != nil {
		t.Fatal(err)
	}
	h := &fakeHost{t: t, goals: tree.Root(), agents: map[string]*agent{}, answer: &fsys.Memory{}, state: "done"}
	h.job = fsys.NewTape(h.answer)
	for _, name := range names {
		if _, err := h.Mkdir(t.Context(), name, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

// Root is what the operator sees.
func (h *fakeHost) Root() fsys.Node {
	return fsys.NewTable(
		fsys.Entry{Name: "README", Node: fsys.Const("no newline")},
		fsys.Entry{Name: "agents", Node: fsys.NewTableWith(h)},
		fsys.Entry{Name: "ctl", Node: &fsys.Ctl{Do: h.ctl, Text: text("token\n")}},
		fsys.Entry{Name: "tokens", Node: fsys.NewTableWith(tokenSet{h})},
	)
}

func text(s string) func(context.Context) ([]byte, error) {
	return func(context.Context) ([]byte, error) { return []byte(s), nil }
}

func (h *fakeHost) Walk(_ context.Context, name string) (fsys.Node, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if a := h.agents[name]; a != nil {
		return a, nil
	}
	return nil, fsys.NotExist
}

func (h *fakeHost) List(context.Context) (list []fsys.Entry, _ error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, name := range h.names {
		list = append(list, fsys.Entry{Name: name, Node: h.agents[name]})
	}
	return list, nil
}

func (h *fakeHost) Mkdir(_ context.Context, name string, _ fs.FileMode) (fsys.Node, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.agents[name] != nil {
		return nil, fsys.Exist
	}
	a := &agent{host: h, name: name, log: &fsys.Memory{}}
	a.tape = fsys.NewTape(a.log)
	job := fsys.NewTable(
		fsys.Entry{Name: "output", Node: h.job},
		fsys.Entry{Name: "result", Node: h.job},
		fsys.Entry{Name: "status", Node: fsys.Text(h.jobStatus)},
		fsys.Entry{Name: "ctl", Node: &fsys.Ctl{Do: h.ctl, Text: text("cancel\n")}},
	)
	dir := func(e ...fsys.Entry) fsys.Node { return fsys.NewTable(e...) }
	a.Table = fsys.NewTable(
		fsys.Entry{Name: "status", Node: fsys.Text(a.status)},
		fsys.Entry{Name: "ctl", Node: &fsys.Ctl{Do: a.ctl, Text: text("stop\nstart\n")}},
		fsys.Entry{Name: "inbox", Node: dir(fsys.Entry{Name: "new", Node: &fsys.Call{Do: h.send}})},
		fsys.Entry{Name: "goals", Node: h.goals},
		fsys.Entry{Name: "logs", Node: dir(
			fsys.Entry{Name: "recent", Node: fsys.Const("{\"event\":\"recent\"}\n")},
			fsys.Entry{Name: "trajectory", Node: a.tape},
			fsys.Entry{Name: "errors", Node: fsys.Text(a.all)},
			fsys.Entry{Name: "trace", Node: a.tape.Live()},
		)},
		fsys.Entry{Name: "compute", Node: dir(
			fsys.Entry{Name: "new", Node: &fsys.Call{Do: h.ask}},
			fsys.Entry{Name: "jobs", Node: dir(fsys.Entry{Name: "17", Node: job})},
		)},
	)
	h.agents[name] = a
	h.names = append(h.names, name)
	return a, nil
}

func (a *agent) Remove(context.Context) error {
	h := a.host
	h.mu.Lock()
	defer h.mu.Unlock()
	if !slices.Contains(h.told, "stop") {
		return fsys.E(fsys.Busy, "the agent runs; stop it first")
	}
	delete(h.agents, a.name)
	h.names = slices.DeleteFunc(h.names, func(n string) bool { return n == a.name })
	return nil
}

func (a *agent) status(context.Context) ([]byte, error) {
	return fmt.Appendf(nil, `{"name":%q,"state":"active","pubkey":"ab12","created":"2030-01-02T03:04:05.000Z",`+
		`"queues":{"inbox":2,"deadletter":1,"jobs":3},"budget":{"held_microusd":0,"spent_day_microusd":5000,`+
		`"spent_total_microusd":1500000,"left_microusd":995000}}`+"\n", a.name), nil
}

func (a *agent) ctl(ctx context.Context, words []string) ([]byte, error) {
	return a.host.ctl(ctx, words)
}

func (h *fakeHost) ctl(_ context.Context, words []string) ([]byte, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.told = append(h.told, strings.Join(words, " "))
	switch words[0] {
	case "token":
		h.tokens = append(h.tokens, "t1")
		return []byte("a9_secret\n"), nil
	case "cancel":
		h.state = "cancelled"
		h.job.End()
	case "stop":
	default:
		return nil, fsys.E(fsys.Invalid, "unknown command "+words[0])
	}
	return nil, nil
}

func (h *fakeHost) send(_ context.Context, req []byte) ([]byte, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if bytes.Contains(req, []byte("refuse me")) {
		return nil, fsys.E(fsys.Exhausted, "5000 needed, 10 left")
	}
	h.sent = append(h.sent, string(req))
	return []byte("m1\n"), nil
}

func (h *fakeHost) ask(_ context.Context, req []byte) ([]byte, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked = append(h.asked, string(req))
	return []byte("17\n"), nil
}

func (h *fakeHost) jobStatus(context.Context) ([]byte, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state == "failed" {
		return []byte(`{"state":"failed","error":{"code":"provider","reason":"the model fell over"}}` + "\n"), nil
	}
	return fmt.Appendf(nil, `{"state":%q}`+"\n", h.state), nil
}

// seen returns what h gathered in one of its lists.
func (h *fakeHost) seen(list *[]string) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(*list)
}

// say lets the model say something; with end it is the last.
func (h *fakeHost) say(text string, end bool) {
	h.answer.Append([]byte(text))
	h.job.Grown()
	if end {
		h.job.End()
	}
}

// log writes to an agent's logs.
func (h *fakeHost) log(name, line string) {
	h.mu.Lock()
	a := h.agents[name]
	h.mu.Unlock()
	a.log.Append([]byte(line + "\n"))
	a.tape.Grown()
}

// tokenSet is the directory of tokens.
type tokenSet struct{ *fakeHost }

func (s tokenSet) Walk(_ context.Context, name string) (fsys.Node, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.tokens, name) {
		return nil, fsys.NotExist
	}
	return tokenFile{fsys.Const(`{"agent":"alice"}` + "\n"), s.fakeHost, name}, nil
}

func (s tokenSet) List(ctx context.Context) (list []fsys.Entry, _ error) {
	s.mu.Lock()
	names := slices.Clone(s.tokens)
	s.mu.Unlock()
	for _, name := range names {
		n, err := s.Walk(ctx, name)
		if err != nil {
			return nil, err
		}
		list = append(list, fsys.Entry{Name: name, Node: n})
	}
	return list, nil
}

func (s tokenSet) Mkdir(context.Context, string, fs.FileMode) (fsys.Node, error) {
	return nil, fsys.Permission
}

type tokenFile struct {
	fsys.Node
	host *fakeHost
	id   string
}

func (f tokenFile) Remove(context.Context) error {
	f.host.mu.Lock()
	defer f.host.mu.Unlock()
	f.host.tokens = slices.DeleteFunc(f.host.tokens, func(id string) bool { return id == f.id })
	return nil
}

// serve serves h on a Unix socket as a daemon does, and returns its address.
// With a token the root is alice's tree.
func (h *fakeHost) serve() string {
	return serveOn(h.t, &ninep.Server{Attach: func(_ context.Context, _ ninep.Peer, _, aname string) (ninep.Grant, error) {
		switch aname {
		case "":
			return ninep.Grant{Root: h.Root(), Caller: fsys.Operator}, nil
		case "a9_secret":
			return ninep.Grant{Root: h.agents["alice"], Caller: "token"}, nil
		}
		return ninep.Grant{}, fsys.E(fsys.Permission, "the token is not known")
	}})
}

func jsonOf(t *testing.T, s string) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal([]byte(s), &m); err != nil {
		t.Fatalf("%q is not a JSON object: %v", s, err)
	}
	return m
}
