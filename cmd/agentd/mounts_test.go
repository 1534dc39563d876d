package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"agent9/fsys"
)

const greed = `{"max_concurrent":999,"default_max_cost_microusd":7777}`

// A mount that is taken away uncovers nothing: neither a policy nor anything
// else can be read, made, replaced or removed at its path, by any door.
func TestAMountOwnsItsPath(t *testing.T) {
	helperFor(t)
	d, url, operator := startWeb(t, "--listen", "tcp:127.0.0.1:0", "--compute", "e=echo:", "--unsafe-host-containers")
	r := d.root()
	create(t, operator, "alice", "bob")
	r.write("agents/bob/config", `{"mounts":{"/compute/policy":"disabled","/containers/policy":"disabled","/logs/output":"disabled","/mounts":"disabled"}}`)
	for who, token := range map[string]string{
		"alice": r.ask("ctl", "token alice rw,/compute/policy:-,/containers/policy:-,/logs/output:-,/mounts:-"),
		"bob":   r.ask("ctl", "token bob rw"),
	} {
		before := r.read("agents/"+who+"/compute/policy") + r.read("agents/"+who+"/containers/policy")
		tr := d.at(token)
		for _, path := range []string{"compute/policy", "containers/policy", "logs/output", "mounts"} {
			dir, name, ok := strings.Cut(path, "/")
			if !ok {
				dir, name = "", path
			}
			_, err := tr.tryRead(path)
			refused(t, who+" reads "+path, err, fsys.NotExist)
			refused(t, who+" writes "+path, tr.tryWrite(path, greed), fsys.NotExist)
			refused(t, who+" removes "+path, tr.tryRemove(path), fsys.NotExist)
			refused(t, who+" makes "+path, tr.tryMake(dir, name, greed), fsys.Permission)
			refused(t, who+" makes the directory "+path, tr.tryMkdir(dir, name), fsys.Permission)
			if list := " " + tr.list(dir) + " "; strings.Contains(list, " "+name+" ") {
				t.Errorf("%s: %s is listed: %s", who, path, list)
			}
			up, err := fsys.WalkPath(within(t), tr.root, dir)
			if err != nil {
				t.Fatal(err)
			}
			if err := fsys.Rename(within(t), up, "usage", name); err == nil {
				t.Errorf("%s: something was renamed to %s", who, path)
			}
			for _, method := range []string{"GET", "PUT", "PATCH", "DELETE", "MKCOL", "POST"} {
				if status, text := ask(t, http.DefaultClient, token, method, url+"/agents/"+who+"/"+path, greed); status < 400 {
					t.Errorf("%s, HTTP: %s %s: %d %s", who, method, path, status, text)
				}
			}
		}
		conn, _, err := websocket.Dial(within(t), strings.Replace(url, "http", "ws", 1)+"/agents/"+who+"/", &websocket.DialOptions{Subprotocols: []string{"agent9", "bearer." + token}})
		if err != nil {
			t.Fatal(err)
		}
		for i, frame := range []string{
			`"op":"open","path":"/compute/policy","mode":"wt"`, `"op":"open","path":"/compute/policy","mode":"wc"`,
			`"op":"remove","path":"/compute/policy"`, `"op":"rename","path":"/compute/usage","to":"policy"`, `"op":"stat","path":"/containers/policy"`,
		} {
			if got := exchange(t, conn, fmt.Sprintf(`{"id":%d,%s}`, i+1, frame)); !strings.Contains(got, `"error"`) {
				t.Errorf("%s, WebSocket: %s: %s", who, frame, got)
			}
		}
		conn.CloseNow()
		a := connectMCP(t, overHTTP(url+"/mcp", token), protocols[0])
		for _, args := range []map[string]any{{"path": "/compute/policy"}, {"path": "/compute/policy", "content": greed}} {
			tool := "read_file"
			if args["content"] != nil {
				tool = "write_file"
			}
			if res, err := a.CallTool(within(t), &sdk.CallToolParams{Name: tool, Arguments: args}); err == nil && !res.IsError {
				t.Errorf("%s, MCP: %s: %v", who, tool, res.Content)
			}
		}
		equal(t, who+"'s policies", r.read("agents/"+who+"/compute/policy")+r.read("agents/"+who+"/containers/policy"), before)
		// A way that begins above the path is none either.
		for _, at := range []string{"/compute/policy", "/containers/policy"} {
			if _, err := attach(t, "unix", d.sock(), token+at); err == nil {
				t.Errorf("%s attached to %s", who, at)
			}
		}
	}
	// A token that is for a mount below one that it does not have sees only that.
	lower := d.at(r.ask("ctl", "token alice /compute/policy:r"))
	equal(t, "compute", lower.list("compute"), "policy")
	equal(t, "the tree", lower.list(""), "compute")
	refused(t, "a write of what may be read", lower.tryWrite("compute/policy", greed), fsys.Permission)
	upper := d.at(r.ask("ctl", "token alice r,/compute/policy:rw,/goals:rw"))
	refused(t, "the policy, for a token that has the right and an agent that has it not", upper.tryWrite("compute/policy", greed), fsys.Permission)
	refused(t, "a request, with r", upper.tryWrite("compute/new", "hello"), fsys.Permission)
	upper.make("goals", "g", "mine")
	has(t, "the mounts of who sees few", lower.list("")+upper.read("mounts"), "/compute\tcompute\tread-only")
}

// What config takes away from an agent is taken at once, also from what it has
// open, what waits and what runs, with the reason.
func TestDisabledStopsWhatUsesIt(t *testing.T) {
	s, d := withSpeaker(t)
	s.gate = make(chan struct{})
	r, alice := d.root(), d.at("/agents/alice")
	own := d.at(r.ask("ctl", "token alice rw"))
	alice.write("compute/policy", `{"default_provider":"m","max_concurrent":1,"prices":{"*":{"input_microusd":1000000,"output_microusd":1000000}}}`)
	session := "sessions/" + own.ask("sessions/new", "talk")
	own.write(session+"/prompt", "first one")
	stream := own.open(session+"/stream", fsys.Read)
	if p := own.begin(stream); true {
		p.ends(t)
		equal(t, "what came before", p.text, "first ")
	}
	queued := own.ask("compute/new", `{"messages":[{"role":"user","content":"never asked"}]}`)
	has(t, "status", own.read("compute/jobs/"+queued+"/status"), `"state":"queued"`)
	half := own.open("compute/new", fsys.Write)
	if _, err := fsys.WriteAt(within(t), half, []byte("plain text that"), 0); err != nil {
		t.Fatal(err)
	}
	const why = "/compute is disabled for alice by its config"
	alice.write("config", `{"mounts":{"/compute":"disabled"}}`)

	for _, l := range alice.transcript(session+"/transcript", 1) {
		if l.final() {
			equal(t, "the outcome", l.Outcome, "failed")
			has(t, "the reason", l.Reason, why)
		}
	}
	_, err := fsys.WriteAt(within(t), half, []byte(" goes on"), 0)
	refused(t, "a file that was open", err, fsys.NotExist)
	if err := half.Close(); err == nil {
		t.Error("what was gathered acted")
	}
	has(t, "the queued job", alice.read("compute/jobs/"+queued+"/result"), "")
	has(t, "the queued job", alice.read("compute/jobs/"+queued+"/status"), `"state":"failed"`, why)
	equal(t, "jobs", alice.list("compute/jobs"), "1 2")

	own.write(session+"/prompt", "second one")
	for _, l := range alice.transcript(session+"/transcript", 2) {
		if l.Prompt == 2 && l.final() {
			has(t, "the reason", l.Outcome+": "+l.Reason, "failed: "+why)
		}
	}
	if s.came["second one"]+s.came["never asked"] > 0 {
		t.Error("the model was asked")
	}
	close(s.gate)
	alice.write("compute/new", "the operator may still ask")
	alice.write("config", `{}`)
	own.write(session+"/prompt", "third one")
	lines := alice.transcript(session+"/transcript", 3)
	equal(t, "after it is given back", lines[len(lines)-1].Outcome, "done")
}

func TestDisabledContainersStop(t *testing.T) {
	helperFor(t)
	d := startDaemon(t, "--unsafe-host-containers")
	r := d.rootWith(t, "alice")
	alice := d.at("/agents/alice")
	own := d.at(r.ask("ctl", "token alice rw"))
	alice.write("containers/policy", `{"max_concurrent":1}`)
	n := own.ask("containers/new", `{"keep":true,"commands":["echo up"]}`)
	if p := own.begin(own.open("containers/sessions/"+n+"/stdout", fsys.Read)); true {
		p.ends(t)
	}
	queued := own.ask("containers/new", "echo never")
	const program = `"program":{"container":{"command":["true"]}},"tick":{"retries":0}`
	const why = "/containers is disabled for alice by its config"
	alice.write("config", `{"mounts":{"/containers":"disabled"},`+program+`}`)
	for _, n := range []string{n, queued} {
		alice.read("containers/sessions/" + n + "/result")
		has(t, "session "+n, alice.read("containers/sessions/"+n+"/status"), `"state":"failed"`, why)
	}
	r.write("agents/alice/ctl", "tick")
	r.until("alice", "logs/ticks", "\n")
	got := r.ticks("alice")[0]
	equal(t, "the tick", got.Outcome+": "+got.Reason, "refused: the container: "+why)
	alice.write("config", `{"mounts":{"/containers":"read-only"},`+program+`}`)
	_, err := fsys.Converse(within(t), own.root, "containers/new", []byte("echo no"))
	refused(t, "a session, read-only", err, fsys.Permission)
}
