package isolation

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

	"agent9/conformance/daemon"
	"agent9/fsys"
	"agent9/fsys/ninep"
)

// treasure is what alice must never see.
const treasure = "what-only-bob-knows"

// estate is a daemon with bob, who has things to lose, and alice, who wants
// them.
func estate(t *testing.T, args ...string) (d *daemon.Daemon, r *daemon.Tree, address, url string) {
	t.Helper()
	d, r, address = daemon.OverTCP(t, append([]string{"--http", "127.0.0.1:0"}, args...)...)
	_, rest, _ := strings.Cut(d.Text(), "listening on http tcp:")
	url, _, _ = strings.Cut("http://"+rest, "\n")
	r.Make("agents/bob/goals", "plan", treasure)
	r.Write("agents/bob/inbox/new", treasure)
	r.Make("agents/bob/secrets", "KEY", treasure)
	r.Make("agents/bob/state", "memory", treasure)
	r.Write("agents/bob/logs/write", treasure)
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
func alices(t *testing.T, d *daemon.Daemon, r *daemon.Tree, address string) map[string]*daemon.Tree {
	t.Helper()
	token := r.Ask("ctl", "token alice rw")
	r.Write("ctl", "socket alice")
	own := d.Data() + "/sockets/alice.sock"
	in := map[string]*daemon.Tree{}
	for _, version := range []string{"9P2000", "9P2000.L"} {
		for name, at := range map[string][3]string{
			"token over TCP":                   {"tcp", address, token},
			"token on the operator's socket":   {"unix", d.Sock(), token},
			"alice's socket":                   {"unix", own, ""},
			"alice's socket, from below a dir": {"unix", own, "/../"},
		} {
			c := daemon.Dial(t, at[0], at[1], ninep.DialVersion(version))
			root, err := c.Attach(daemon.Within(t), "bob", at[2])
			if err != nil {
				if strings.Contains(at[2], "..") {
					continue // refused is as good
				}
				t.Fatalf("%s %s: %v", name, version, err)
			}
			in[name+" "+version] = &daemon.Tree{T: t, Client: c, Root: root}
		}
	}
	return in
}

func TestIsolationOver9P(t *testing.T) {
	d, r, address, _ := estate(t)
	for name, alice := range alices(t, d, r, address) {
		t.Run(name, func(t *testing.T) {
			alice := &daemon.Tree{T: t, Client: alice.Client, Root: alice.Root}
			daemon.Has(t, "status", alice.Read("status"), `"name":"alice"`)
			top := alice.List("")
			for _, hidden := range []string{"agents", "tokens", "metrics", "profiles", "version"} {
				if strings.Contains(" "+top+" ", " "+hidden+" ") {
					t.Errorf("the root has %s", hidden)
				}
			}
			for _, way := range ways {
				prowl(alice, way)
			}
			up := fsys.Node(alice.Root)
			for range 3 { // .. at the root stays there
				n, err := fsys.Walk(daemon.Within(t), up, "..")
				if err != nil {
					break
				}
				b, err := fsys.ReadFile(daemon.Within(t), n, "status")
				if err != nil || !strings.Contains(string(b), `"name":"alice"`) {
					t.Fatalf("above the root there is %q, %v", b, err)
				}
				up = n
			}
			for _, path := range []string{"config", "budget/limits", "compute/policy", "containers/policy"} {
				was := alice.Read(path)
				daemon.Refused(t, path, alice.TryWrite(path, "{}"), fsys.Permission)
				daemon.Equal(t, path, alice.Read(path), was)
			}
			for _, path := range []string{"config", "status", "budget/limits", "compute/policy", "identity", "secrets", "logs", "inbox"} {
				if err := alice.TryRemove(path); err == nil {
					t.Errorf("alice removed %s", path)
				}
			}
			if err := alice.TryMake("approvals", "1", "approve"); err == nil {
				t.Error("alice made an approval")
			}
			if err := alice.TryMake("secrets", "MINE", "x"); err == nil {
				t.Error("alice wrote a secret")
			}
		})
	}
	daemon.Equal(t, "bob's goal", r.Read("agents/bob/goals/plan"), treasure)
	daemon.Equal(t, "bob's inbox", strings.Count(r.List("agents/bob/inbox"), " "), strings.Count(r.List("agents/alice/inbox"), " ")+1)
}

// prowl tries everything with the path.
func prowl(tr *daemon.Tree, path string) {
	tr.T.Helper()
	if text, err := tr.TryRead(path); strings.Contains(text, treasure) || strings.Contains(text, "root:") {
		tr.T.Errorf("%q can be read: %q, %v", path, text, err)
	}
	for what, err := range map[string]error{
		"write":  tr.TryWrite(path, "changed"),
		"remove": tr.TryRemove(path),
		"mkdir":  tr.TryMkdir(path, "new"),
	} {
		if err == nil && !strings.HasSuffix(path, "..") && path != "goals//plan" {
			tr.T.Errorf("%s of %q was done", what, path)
		}
	}
}

// Who has no right to know cannot tell what exists from what does not.
func TestWhatExistsIsNotTold(t *testing.T) {
	_, r, address, url := estate(t)
	revoked := r.Ask("ctl", "token bob rw")
	r.Remove("tokens/" + r.List("tokens"))
	token := r.Ask("ctl", "token alice rw")
	said := func(network, at, aname string) string {
		_, err := daemon.Attach(t, network, at, aname)
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
		req, err := http.NewRequestWithContext(daemon.Within(t), "GET", url+path, nil)
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
	req, err := http.NewRequestWithContext(daemon.Within(t), "POST", url+"/agents/alice/mcp", strings.NewReader(body))
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
	alice := &daemon.Tree{T: t, Client: r.Client, Root: r.Root}
	alice.Make("agents/alice/goals", "g", "text")
	alice.Make("agents/alice/state", "s", "text")
	ro, err := daemon.Attach(t, "tcp", address, r.Ask("ctl", "token alice r"))
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	each(ro, "", ro.Root, 0, func(path string, n fsys.Node, info fsys.Info) {
		ctx := daemon.Within(t)
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
	daemon.Equal(t, "the goal", r.Read("agents/alice/goals/g"), "text")
	daemon.Equal(t, "the state", r.Read("agents/alice/state/s"), "text")
	daemon.Equal(t, "the goals", r.List("agents/alice/goals"), "g")
}

// each calls do for all that is below n.
func each(tr *daemon.Tree, path string, n fsys.Node, depth int, do func(string, fsys.Node, fsys.Info)) {
	tr.T.Helper()
	info, err := n.Stat(daemon.Within(tr.T))
	if err != nil {
		tr.T.Fatalf("%s: %v", path, err)
	}
	do(path, n, info)
	if info.Kind != fsys.Directory || depth > 4 {
		return
	}
	list, err := fsys.List(daemon.Within(tr.T), n)
	if err != nil {
		tr.T.Fatalf("%s: %v", path, err)
	}
	for _, e := range list {
		each(tr, path+"/"+e.Name, e.Node, depth+1, do)
	}
}

// No agent can speak as the operator or as another agent.
func TestNobodySpeaksForAnother(t *testing.T) {
	d, r, address, _ := estate(t)
	for _, name := range []string{"operator", "*", "..", "a/b", "", "-1"} {
		if err := r.TryMkdir("agents", name); err == nil {
			t.Errorf("an agent is called %q", name)
		}
	}
	r.Write("agents/bob/config", `{"accept":["carol"]}`)
	for name, alice := range alices(t, d, r, address) {
		alice := &daemon.Tree{T: t, Client: alice.Client, Root: alice.Root}
		err := alice.TryWrite("outbox/new", `{"to":"bob","body":"x"}`)
		if err == nil {
			t.Errorf("%s: bob takes it", name)
		}
		for _, forged := range []string{`{"to":"bob","from":"carol","body":"x"}`, `{"to":"bob","from":"operator","body":"x"}`} {
			daemon.Refused(t, name, alice.TryWrite("outbox/new", forged), fsys.Invalid)
		}
	}
	daemon.Equal(t, "what bob got", strings.Contains(r.List("agents/bob/inbox"), "alice"), false)
	if strings.Contains(r.Tail("agents/bob/logs/trajectory"), `"from":"alice"`) {
		t.Error("bob was told of a message")
	}
}

// What is over is over: of a token that has expired, and in the midst of use.
func TestATokenThatEnds(t *testing.T) {
	_, r, address, url := estate(t)
	token := r.Ask("ctl", "token alice rw 2s")
	alice, err := daemon.Attach(t, "tcp", address, token)
	if err != nil {
		t.Fatal(err)
	}
	h := alice.Open("events", fsys.Read)
	ctx, cancel := context.WithTimeout(t.Context(), daemon.Limit)
	defer cancel()
	b := make([]byte, 1<<16)
	for off := int64(0); ; {
		n, err := fsys.ReadAt(ctx, h, b, off)
		if err != nil {
			daemon.Refused(t, "a read that waited", err, fsys.Permission)
			break
		}
		off += int64(n)
	}
	daemon.Refused(t, "a write after it", alice.TryWrite("goals/x", "x"), fsys.Permission)
	if _, err := daemon.Attach(t, "tcp", address, token); fsys.CodeOf(err) != fsys.Permission {
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
