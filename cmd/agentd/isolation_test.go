package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"agent9/fsys"
	"agent9/fsys/ninep"
)

// treasure is what alice must never see.
const treasure = "what-only-bob-knows"

// estate is a daemon with bob, who has things to lose, and alice, who wants
// them.
func estate(t *testing.T, args ...string) (d *daemon, r *tree, address, url string) {
	t.Helper()
	d, r, address = overTCP(t, append([]string{"--http", "127.0.0.1:0"}, args...)...)
	_, rest, _ := strings.Cut(d.text(), "listening on http tcp:")
	url, _, _ = strings.Cut("http://"+rest, "\n")
	r.make("agents/bob/goals", "plan", treasure)
	r.write("agents/bob/inbox/new", treasure)
	r.make("agents/bob/secrets", "KEY", treasure)
	r.make("agents/bob/state", "memory", treasure)
	r.write("agents/bob/logs/write", treasure)
	return d, r, address, url
}

// ways are how alice may look for what is not hers, from the root of her tree.
var ways = []string{
	"../bob/goals/plan", "../../agents/bob/goals/plan", "agents/bob/goals/plan", "/agents/bob/goals/plan", "goals/../../bob/goals/plan",
	"goals/../../../agents/bob/goals/plan", "./../bob/goals/plan", "bob/goals/plan", "goals//plan", "../tokens", "../../tokens", "tokens", "../events",
	"../metrics", "../ctl", "..", "../..", "\x00", "goals/\xff", "Bob/goals/plan", "..%2fbob/goals/plan", "%2e%2e/bob/goals/plan", "~bob", "alice",
	"etc/passwd", "/etc/passwd", "../../../../../../../../etc/passwd", "proc/self/environ", "containers/sessions/1/files/../../../../../etc/passwd",
	"tools/../secrets/KEY", "outbox/../../bob/inbox/head", "identity/../../bob/identity/sign", "master.key", "../master.key",
}

// alices are the ways in that alice has, in both dialects.
func alices(t *testing.T, d *daemon, r *tree, address string) map[string]*tree {
	t.Helper()
	token := r.ask("ctl", "token alice rw")
	r.write("ctl", "socket alice")
	own := d.data() + "/sockets/alice.sock"
	in := map[string]*tree{}
	for _, version := range []string{"9P2000", "9P2000.L"} {
		for name, at := range map[string][3]string{
			"token over TCP":                   {"tcp", address, token},
			"token on the operator's socket":   {"unix", d.sock(), token},
			"alice's socket":                   {"unix", own, ""},
			"alice's socket, from below a dir": {"unix", own, "/../"},
		} {
			c := dial(t, at[0], at[1], ninep.DialVersion(version))
			root, err := c.Attach(within(t), "bob", at[2])
			if err != nil {
				if strings.Contains(at[2], "..") {
					continue // refused is as good
				}
				t.Fatalf("%s %s: %v", name, version, err)
			}
			in[name+" "+version] = &tree{t, c, root}
		}
	}
	return in
}

func TestIsolationOver9P(t *testing.T) {
	d, r, address, _ := estate(t)
	for name, alice := range alices(t, d, r, address) {
		t.Run(name, func(t *testing.T) {
			alice := &tree{t, alice.client, alice.root}
			has(t, "status", alice.read("status"), `"name":"alice"`)
			top := alice.list("")
			for _, hidden := range []string{"agents", "tokens", "metrics", "profiles", "version"} {
				if strings.Contains(" "+top+" ", " "+hidden+" ") {
					t.Errorf("the root has %s", hidden)
				}
			}
			for _, way := range ways {
				alice.prowl(way)
			}
			up := fsys.Node(alice.root)
			for range 3 { // .. at the root stays there
				n, err := fsys.Walk(within(t), up, "..")
				if err != nil {
					break
				}
				b, err := fsys.ReadFile(within(t), n, "status")
				if err != nil || !strings.Contains(string(b), `"name":"alice"`) {
					t.Fatalf("above the root there is %q, %v", b, err)
				}
				up = n
			}
			for _, path := range []string{"config", "budget/limits", "compute/policy", "containers/policy"} {
				was := alice.read(path)
				refused(t, path, alice.tryWrite(path, "{}"), fsys.Permission)
				equal(t, path, alice.read(path), was)
			}
			for _, path := range []string{"config", "status", "budget/limits", "compute/policy", "identity", "secrets", "logs", "inbox"} {
				if err := alice.tryRemove(path); err == nil {
					t.Errorf("alice removed %s", path)
				}
			}
			if err := alice.tryMake("approvals", "1", "approve"); err == nil {
				t.Error("alice made an approval")
			}
			if err := alice.tryMake("secrets", "MINE", "x"); err == nil {
				t.Error("alice wrote a secret")
			}
		})
	}
	equal(t, "bob's goal", r.read("agents/bob/goals/plan"), treasure)
	equal(t, "bob's inbox", strings.Count(r.list("agents/bob/inbox"), " "), strings.Count(r.list("agents/alice/inbox"), " ")+1)
}

// prowl tries everything with the path.
func (tr *tree) prowl(path string) {
	tr.t.Helper()
	if text, err := tr.tryRead(path); strings.Contains(text, treasure) || strings.Contains(text, "root:") {
		tr.t.Errorf("%q can be read: %q, %v", path, text, err)
	}
	for what, err := range map[string]error{
		"write":  tr.tryWrite(path, "changed"),
		"remove": tr.tryRemove(path),
		"mkdir":  tr.tryMkdir(path, "new"),
	} {
		if err == nil && !strings.HasSuffix(path, "..") && path != "goals//plan" {
			tr.t.Errorf("%s of %q was done", what, path)
		}
	}
}

// Who has no right to know cannot tell what exists from what does not.
func TestWhatExistsIsNotTold(t *testing.T) {
	_, r, address, url := estate(t)
	revoked := r.ask("ctl", "token bob rw")
	r.remove("tokens/" + r.list("tokens"))
	token := r.ask("ctl", "token alice rw")
	said := func(network, at, aname string) string {
		_, err := attach(t, network, at, aname)
		if err == nil {
			return "granted"
		}
		return fmt.Sprintf("%v: %v", fsys.CodeOf(err), err)
	}
	for _, pair := range [][2]string{
		{"/agents/bob", "/agents/nobody"},
		{"bob", "nobody"},
		{token + "/agents/bob", token + "/agents/nobody"},
		{token + "/../bob", token + "/../nobody"},
		{"a9_" + strings.Repeat("A", 43), "a9_"},
		{revoked, "a9_" + strings.Repeat("A", 43)},
		{revoked[:len(revoked)-1], "a9_x"},
	} {
		a, b := said("tcp", address, pair[0]), said("tcp", address, pair[1])
		if a == "granted" || a != b {
			t.Errorf("%q is answered by %q, and %q by %q", pair[0], a, pair[1], b)
		}
	}
	get := func(path, token string) string {
		req, err := http.NewRequestWithContext(within(t), "GET", url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.Status + " " + string(b)
	}
	for _, at := range []string{"/agents/%s/status", "/agents/%s", "/agents/%s/goals/plan", "/agents/%s/v1/models", "/agents/alice/../%s/status", "/%s"} {
		for _, with := range []string{"", token, revoked} {
			a, b := get(fmt.Sprintf(at, "bob"), with), get(fmt.Sprintf(at, "bub"), with)
			if strings.Contains(a, treasure) || strings.HasPrefix(a, "200") || strings.ReplaceAll(a, "bob", "bub") != b {
				t.Errorf("GET %s: for bob %q, for nobody %q", at, a, b)
			}
		}
	}
	for _, way := range ways {
		if strings.Contains(way, "\x00") || !utf8.ValidString(way) {
			continue
		}
		if got := get("/agents/alice/"+way, token); strings.Contains(got, treasure) || strings.Contains(got, "root:") {
			t.Errorf("GET %q: %q", way, got)
		}
		if got := assistantReads(t, url, token, way); strings.Contains(got, treasure) || strings.Contains(got, "root:") {
			t.Errorf("MCP read of %q: %q", way, got)
		}
	}
}

// assistantReads is what the tool read of MCP answers.
func assistantReads(t *testing.T, url, token, path string) string {
	t.Helper()
	args, err := json.Marshal(map[string]string{"path": path})
	if err != nil {
		t.Fatal(err)
	}
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read","arguments":` + string(args) + `}}`
	req, err := http.NewRequestWithContext(within(t), "POST", url+"/agents/alice/mcp", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// A token that may only read changes nothing, wherever it tries.
func TestReadOnlyChangesNothing(t *testing.T) {
	_, r, address, _ := estate(t)
	alice := &tree{t, r.client, r.root}
	alice.make("agents/alice/goals", "g", "text")
	alice.make("agents/alice/state", "s", "text")
	ro, err := attach(t, "tcp", address, r.ask("ctl", "token alice r"))
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	ro.each("", ro.root, 0, func(path string, n fsys.Node, info fsys.Info) {
		ctx := within(t)
		attempts := map[string]func() error{
			"remove":   func() error { return fsys.Remove(ctx, n) },
			"truncate": func() error { return fsys.Truncate(ctx, n, 0) },
			"chmod": func() error {
				perm := info.Perm | 0o222
				return fsys.SetAttr(ctx, n, fsys.Attr{Perm: &perm})
			},
		}
		if info.Kind == fsys.Directory {
			delete(attempts, "truncate")
			attempts["mkdir"] = func() error { _, err := fsys.Mkdir(ctx, n, "new", 0o755); return err }
			attempts["create"] = func() error {
				_, h, err := fsys.OpenCreate(ctx, n, "new", 0o644, fsys.Write|fsys.Trunc)
				if err == nil {
					h.Close()
				}
				return err
			}
			attempts["rename"] = func() error { return fsys.Rename(ctx, n, "g", "h") }
		} else {
			attempts["open for writing"] = func() error {
				h, err := n.Open(ctx, fsys.Write)
				if err != nil {
					return err
				}
				defer h.Close()
				if _, err := fsys.WriteAt(ctx, h, []byte("x\n"), 0); err != nil {
					return err
				}
				return fsys.Finish(ctx, h)
			}
		}
		for what, do := range attempts {
			tried++
			if err := do(); err == nil {
				// Truncating a Message does nothing, for who writes too.
				if what == "truncate" && info.Kind == fsys.Message {
					continue
				}
				t.Errorf("%s of %s was done", what, path)
			}
		}
	})
	if tried < 100 {
		t.Fatalf("only %d attempts", tried)
	}
	equal(t, "the goal", r.read("agents/alice/goals/g"), "text")
	equal(t, "the state", r.read("agents/alice/state/s"), "text")
	equal(t, "the goals", r.list("agents/alice/goals"), "g")
}

// each calls do for all that is below n.
func (tr *tree) each(path string, n fsys.Node, depth int, do func(string, fsys.Node, fsys.Info)) {
	tr.t.Helper()
	info, err := n.Stat(within(tr.t))
	if err != nil {
		tr.t.Fatalf("%s: %v", path, err)
	}
	do(path, n, info)
	if info.Kind != fsys.Directory || depth > 4 {
		return
	}
	list, err := fsys.List(within(tr.t), n)
	if err != nil {
		tr.t.Fatalf("%s: %v", path, err)
	}
	for _, e := range list {
		tr.each(path+"/"+e.Name, e.Node, depth+1, do)
	}
}

// No agent can speak as the operator or as another agent.
func TestNobodySpeaksForAnother(t *testing.T) {
	d, r, address, _ := estate(t)
	for _, name := range []string{"operator", "*", "..", "a/b", "", "-1"} {
		if err := r.tryMkdir("agents", name); err == nil {
			t.Errorf("an agent is called %q", name)
		}
	}
	r.write("agents/bob/config", `{"accept":["carol"]}`)
	for name, alice := range alices(t, d, r, address) {
		alice := &tree{t, alice.client, alice.root}
		err := alice.tryWrite("outbox/new", `{"to":"bob","body":"x"}`)
		if err == nil {
			t.Errorf("%s: bob takes it", name)
		}
		for _, forged := range []string{`{"to":"bob","from":"carol","body":"x"}`, `{"to":"bob","from":"operator","body":"x"}`} {
			refused(t, name, alice.tryWrite("outbox/new", forged), fsys.Invalid)
		}
	}
	equal(t, "what bob got", strings.Contains(r.list("agents/bob/inbox"), "alice"), false)
	if strings.Contains(r.tail("agents/bob/logs/trajectory"), `"from":"alice"`) {
		t.Error("bob was told of a message")
	}
}

// What is over is over: of a token that has expired, and in the midst of use.
func TestATokenThatEnds(t *testing.T) {
	_, r, address, url := estate(t)
	token := r.ask("ctl", "token alice rw 2s")
	alice, err := attach(t, "tcp", address, token)
	if err != nil {
		t.Fatal(err)
	}
	h := alice.open("events", fsys.Read)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	b := make([]byte, 1<<16)
	for off := int64(0); ; {
		n, err := fsys.ReadAt(ctx, h, b, off)
		if err != nil {
			refused(t, "a read that waited", err, fsys.Permission)
			break
		}
		off += int64(n)
	}
	refused(t, "a write after it", alice.tryWrite("goals/x", "x"), fsys.Permission)
	if _, err := attach(t, "tcp", address, token); fsys.CodeOf(err) != fsys.Permission {
		t.Errorf("attached with it: %v", err)
	}
	req, _ := http.NewRequestWithContext(ctx, "GET", url+"/agents/alice/status", nil)
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := (&http.Client{Timeout: time.Minute}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode == http.StatusOK {
		t.Error("it is good for HTTP")
	}
}
