package http

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"agent9/conformance/daemon"
	"agent9/fsys"
)

const greed = `{"max_concurrent":999,"default_max_cost_microusd":7777}`

// A mount that is taken away uncovers nothing: neither a policy nor anything
// else can be read, made, replaced or removed at its path, by any door.
func TestAMountOwnsItsPath(t *testing.T) {
	daemon.HelperFor(t)
	d, url, operator := daemon.StartWeb(t, "--listen", "tcp:127.0.0.1:0", "--compute", "e=echo:", "--unsafe-host-containers")
	r := d.Root()
	daemon.Create(t, operator, "alice", "bob")
	r.Write("agents/bob/config", `{"mounts":{"/compute/policy":"disabled","/containers/policy":"disabled","/logs/output":"disabled","/mounts":"disabled"}}`)
	for who, token := range map[string]string{
		"alice": r.Ask("ctl", "token alice rw,/compute/policy:-,/containers/policy:-,/logs/output:-,/mounts:-"),
		"bob":   r.Ask("ctl", "token bob rw"),
	} {
		before := r.Read("agents/"+who+"/compute/policy") + r.Read("agents/"+who+"/containers/policy")
		tr := d.At(token)
		for _, path := range []string{"compute/policy", "containers/policy", "logs/output", "mounts"} {
			dir, name, ok := strings.Cut(path, "/")
			if !ok {
				dir, name = "", path
			}
			_, err := tr.TryRead(path)
			daemon.Refused(t, who+" reads "+path, err, fsys.NotExist)
			daemon.Refused(t, who+" writes "+path, tr.TryWrite(path, greed), fsys.NotExist)
			daemon.Refused(t, who+" removes "+path, tr.TryRemove(path), fsys.NotExist)
			daemon.Refused(t, who+" makes "+path, tr.TryMake(dir, name, greed), fsys.Permission)
			daemon.Refused(t, who+" makes the directory "+path, tr.TryMkdir(dir, name), fsys.Permission)
			if list := " " + tr.List(dir) + " "; strings.Contains(list, " "+name+" ") {
				t.Errorf("%s: %s is listed: %s", who, path, list)
			}
			up, err := fsys.WalkPath(daemon.Within(t), tr.Root, dir)
			if err != nil {
				t.Fatal(err)
			}
			if err := fsys.Rename(daemon.Within(t), up, "usage", name); err == nil {
				t.Errorf("%s: something was renamed to %s", who, path)
			}
			for _, method := range []string{"GET", "PUT", "PATCH", "DELETE", "MKCOL", "POST"} {
				if status, text := daemon.Ask(t, http.DefaultClient, token, method, url+"/agents/"+who+"/"+path, greed); status < 400 {
					t.Errorf("%s, HTTP: %s %s: %d %s", who, method, path, status, text)
				}
			}
		}
		conn, _, err := websocket.Dial(daemon.Within(t), strings.Replace(url, "http", "ws", 1)+"/agents/"+who+"/", &websocket.DialOptions{Subprotocols: []string{"agent9", "bearer." + token}})
		if err != nil {
			t.Fatal(err)
		}
		for i, frame := range []string{
			`"op":"open","path":"/compute/policy","mode":"wt"`, `"op":"open","path":"/compute/policy","mode":"wc"`,
			`"op":"remove","path":"/compute/policy"`, `"op":"rename","path":"/compute/usage","to":"policy"`, `"op":"stat","path":"/containers/policy"`,
		} {
			if got := daemon.Exchange(t, conn, fmt.Sprintf(`{"id":%d,%s}`, i+1, frame)); !strings.Contains(got, `"error"`) {
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
			if res, err := a.CallTool(daemon.Within(t), &sdk.CallToolParams{Name: tool, Arguments: args}); err == nil && !res.IsError {
				t.Errorf("%s, MCP: %s: %v", who, tool, res.Content)
			}
		}
		daemon.Equal(t, who+"'s policies", r.Read("agents/"+who+"/compute/policy")+r.Read("agents/"+who+"/containers/policy"), before)
		// A way that begins above the path is none either.
		for _, at := range []string{"/compute/policy", "/containers/policy"} {
			if _, err := daemon.Attach(t, "unix", d.Sock(), token+at); err == nil {
				t.Errorf("%s attached to %s", who, at)
			}
		}
	}
	// A token that is for a mount below one that it does not have sees only that.
	lower := d.At(r.Ask("ctl", "token alice /compute/policy:r"))
	daemon.Equal(t, "compute", lower.List("compute"), "policy")
	daemon.Equal(t, "the tree", lower.List(""), "compute")
	daemon.Refused(t, "a write of what may be read", lower.TryWrite("compute/policy", greed), fsys.Permission)
	upper := d.At(r.Ask("ctl", "token alice r,/compute/policy:rw,/goals:rw"))
	daemon.Refused(t, "the policy, for a token that has the right and an agent that has it not", upper.TryWrite("compute/policy", greed), fsys.Permission)
	daemon.Refused(t, "a request, with r", upper.TryWrite("compute/new", "hello"), fsys.Permission)
	upper.Make("goals", "g", "mine")
	daemon.Has(t, "the mounts of who sees few", lower.List("")+upper.Read("mounts"), "/compute\tcompute\tread-only")
}

// What config takes away from an agent is taken at once, also from what it has
// open, what waits and what runs, with the reason.
func TestDisabledStopsWhatUsesIt(t *testing.T) {
	s, d := daemon.WithSpeaker(t)
	s.Gate = make(chan struct{})
	r, alice := d.Root(), d.At("/agents/alice")
	own := d.At(r.Ask("ctl", "token alice rw"))
	alice.Write("compute/policy", `{"default_provider":"m","max_concurrent":1,"prices":{"*":{"input_microusd":1000000,"output_microusd":1000000}}}`)
	session := "sessions/" + own.Ask("sessions/new", "talk")
	own.Write(session+"/prompt", "first one")
	stream := own.Open(session+"/stream", fsys.Read)
	if p := own.Begin(stream); true {
		p.Ends(t)
		daemon.Equal(t, "what came before", p.Text, "first ")
	}
	queued := own.Ask("compute/new", `{"messages":[{"role":"user","content":"never asked"}]}`)
	daemon.Has(t, "status", own.Read("compute/jobs/"+queued+"/status"), `"state":"queued"`)
	half := own.Open("compute/new", fsys.Write)
	if _, err := fsys.WriteAt(daemon.Within(t), half, []byte("plain text that"), 0); err != nil {
		t.Fatal(err)
	}
	const why = "/compute is disabled for alice by its config"
	alice.Write("config", `{"mounts":{"/compute":"disabled"}}`)

	for _, l := range alice.Transcript(session+"/transcript", 1) {
		if l.Final() {
			daemon.Equal(t, "the outcome", l.Outcome, "failed")
			daemon.Has(t, "the reason", l.Reason, why)
		}
	}
	_, err := fsys.WriteAt(daemon.Within(t), half, []byte(" goes on"), 0)
	daemon.Refused(t, "a file that was open", err, fsys.NotExist)
	if err := half.Close(); err == nil {
		t.Error("what was gathered acted")
	}
	daemon.Has(t, "the queued job", alice.Read("compute/jobs/"+queued+"/result"), "")
	daemon.Has(t, "the queued job", alice.Read("compute/jobs/"+queued+"/status"), `"state":"failed"`, why)
	daemon.Equal(t, "jobs", alice.List("compute/jobs"), "1 2")

	own.Write(session+"/prompt", "second one")
	for _, l := range alice.Transcript(session+"/transcript", 2) {
		if l.Prompt == 2 && l.Final() {
			daemon.Has(t, "the reason", l.Outcome+": "+l.Reason, "failed: "+why)
		}
	}
	if s.Came["second one"]+s.Came["never asked"] > 0 {
		t.Error("the model was asked")
	}
	close(s.Gate)
	alice.Write("compute/new", "the operator may still ask")
	alice.Write("config", `{}`)
	own.Write(session+"/prompt", "third one")
	lines := alice.Transcript(session+"/transcript", 3)
	daemon.Equal(t, "after it is given back", lines[len(lines)-1].Outcome, "done")
}

func TestDisabledContainersStop(t *testing.T) {
	daemon.HelperFor(t)
	d := daemon.Start(t, "--unsafe-host-containers")
	r := d.RootWith(t, "alice")
	alice := d.At("/agents/alice")
	own := d.At(r.Ask("ctl", "token alice rw"))
	alice.Write("containers/policy", `{"max_concurrent":1}`)
	n := own.Ask("containers/new", `{"keep":true,"commands":["echo up"]}`)
	if p := own.Begin(own.Open("containers/sessions/"+n+"/stdout", fsys.Read)); true {
		p.Ends(t)
	}
	queued := own.Ask("containers/new", "echo never")
	const program = `"program":{"container":{"command":["true"]}},"tick":{"retries":0}`
	const why = "/containers is disabled for alice by its config"
	alice.Write("config", `{"mounts":{"/containers":"disabled"},`+program+`}`)
	for _, n := range []string{n, queued} {
		alice.Read("containers/sessions/" + n + "/result")
		daemon.Has(t, "session "+n, alice.Read("containers/sessions/"+n+"/status"), `"state":"failed"`, why)
	}
	r.Write("agents/alice/ctl", "tick")
	r.Until("alice", "logs/ticks", "\n")
	got := r.Ticks("alice")[0]
	daemon.Equal(t, "the tick", got.Outcome+": "+got.Reason, "refused: the container: "+why)
	alice.Write("config", `{"mounts":{"/containers":"read-only"},`+program+`}`)
	_, err := fsys.Converse(daemon.Within(t), own.Root, "containers/new", []byte("echo no"))
	daemon.Refused(t, "a session, read-only", err, fsys.Permission)
}
