package main

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"agent9/fsys"
)

// oneAgent starts a daemon with the agent alice, and returns the operator's
// view of the daemon and of alice.
func oneAgent(t *testing.T) (d *daemon, r, alice *tree) {
	t.Helper()
	d = startDaemon(t)
	r = d.root()
	r.mkdir("agents", "alice")
	return d, r, d.at("/agents/alice")
}

// garbage is what agentd may have beyond what it needs, before it collects.
const garbage = 32 << 20

const inboxFiles = "new next head taken ctl"

func TestHalfWrittenJSON(t *testing.T) {
	_, _, alice := oneAgent(t)
	config := alice.read("config")
	for _, c := range []struct{ path, text, reason string }{
		{"inbox/new", `{"body": "half`, "the JSON object is not complete"},
		{"config", `{"accept": ["bob"`, "not a whole JSON value; nothing was changed"},
	} {
		err := alice.tryWrite(c.path, c.text)
		refused(t, c.path, err, fsys.Invalid, c.reason)
		has(t, "logs/errors", lastLine(alice.tail("logs/errors")),
			`"path":"/`+c.path+`"`, `"op":"sync"`, `"code":"invalid"`, `"reason":"`+c.reason, `"by":"operator"`)
	}
	equal(t, "config", alice.read("config"), config)
	equal(t, "inbox", alice.list("inbox"), inboxFiles)

	// What is wrong as a whole is refused by the write that completes it.
	for _, c := range []struct{ path, text, reason string }{
		{"inbox/new", `{"body": 1, "from": "mallory"}`, "from and time are set by the server"},
		{"inbox/new", `{"subject": 1}`, `unknown field \"subject\"`},
		{"config", `{"acept": []}`, `unknown field \"acept\"`},
		{"config", `{"mounts": {"/nowhere": "disabled"}}`, "nothing is mounted at /nowhere"},
		{"config", `{"inbox": {"limit": 0}}`, "inbox.limit must be from 1 to 1048576"},
		{"config", `{"deadletter": {"limit": 0}}`, "deadletter.limit must be from 1 to 1048576"},
		{"config", `{"inbox": {"overflow": "burn"}}`, "overflow must be deadletter, drop-oldest or refuse"},
		{"config", `hello`, "this file takes a JSON object; nothing was changed"},
		{"ctl", "dance", "unknown command dance"},
	} {
		refused(t, c.path, alice.tryWrite(c.path, c.text), fsys.Invalid, strings.ReplaceAll(c.reason, `\`, ""))
		has(t, "logs/errors", lastLine(alice.tail("logs/errors")), `"path":"/`+c.path+`"`, `"op":"write"`, `"code":"invalid"`, c.reason)
	}
	equal(t, "config", alice.read("config"), config)
	equal(t, "inbox", alice.list("inbox"), inboxFiles)
}

// A hang-up in the middle of a request is not its end.
func TestHangUpInRequest(t *testing.T) {
	d, _, alice := oneAgent(t)
	other := d.at("/agents/alice")
	for _, text := range []string{`{"body": 1`, "plain text"} {
		h := other.open("inbox/new", fsys.Write)
		if _, err := fsys.WriteAt(within(t), h, []byte(text), 0); err != nil {
			t.Fatal(err)
		}
	}
	// The daemon has noticed when a message that this connection had taken is
	// back.
	id := alice.ask("inbox/new", "taken")
	taken := other.begin(other.open("inbox/next", fsys.Read))
	taken.ends(t)
	has(t, "what was taken", taken.text, id)
	other.client.Close()
	has(t, "what is back", alice.read("inbox/next"), id)
	equal(t, "inbox", alice.list("inbox"), inboxFiles)
	equal(t, "logs/errors", alice.tail("logs/errors"), "")
}

func TestHugeRequest(t *testing.T) {
	d, _, alice := oneAgent(t)
	for _, text := range []string{"x", `{"body":"` + strings.Repeat("x", 1000)} {
		before := residentKiB(t, d)
		h := alice.open("inbox/new", fsys.Write)
		piece := []byte(strings.Repeat(text, 1<<20/len(text)))
		sent := 0
		var err error
		for sent < 100<<20 && err == nil {
			var n int
			n, err = fsys.WriteAt(within(t), h, piece, int64(sent))
			sent += n
		}
		refused(t, "100 MB", err, fsys.TooLarge, "longer than this file accepts")
		if sent > 2<<20 {
			t.Errorf("it was refused after %d bytes", sent)
		}
		// A client that does not care goes on.
		for range 98 {
			if _, err := fsys.WriteAt(within(t), h, piece, int64(sent)); fsys.CodeOf(err) != fsys.TooLarge {
				t.Fatalf("a write after that: %v", err)
			}
		}
		h.Close()
		// 64 MiB, and the garbage that may lie there before it is collected.
		if grown := residentKiB(t, d) - before; grown > 64<<10+2*garbage>>10 {
			t.Errorf("the daemon has grown by %d KiB", grown)
		}
	}
	equal(t, "inbox", alice.list("inbox"), inboxFiles)
	has(t, "logs/errors", alice.tail("logs/errors"), `"path":"/inbox/new"`, `"code":"too-large"`)
	equal(t, "code", fsys.TooLarge.Errno(), 27)
	alice.write("inbox/new", "a short one")
	equal(t, "files in inbox", len(strings.Fields(alice.list("inbox")))-len(strings.Fields(inboxFiles)), 1)
}

// residentKiB is how much memory the daemon has.
func residentKiB(t *testing.T, d *daemon) int {
	t.Helper()
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", d.cmd.Process.Pid))
	if err != nil {
		t.Skip("this system does not tell how much memory a process has")
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if f := strings.Fields(lines.Text()); len(f) == 3 && f[0] == "VmRSS:" {
			n, err := strconv.Atoi(f[1])
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatal("no VmRSS")
	return 0
}

func TestNames(t *testing.T) {
	_, r, _ := oneAgent(t)
	long := strings.Repeat("n", 255)
	r.make("agents/alice/goals", "kept", "as it was")
	for _, c := range []struct {
		name  string
		agent fsys.Code // of mkdir agents/NAME
		goal  fsys.Code // of making goals/NAME; Internal if it works
	}{
		{"a/b", fsys.Invalid, fsys.Invalid},
		{"/", fsys.Invalid, fsys.Invalid},
		{"a\x00b", fsys.Invalid, fsys.Invalid},
		{"..", fsys.Invalid, fsys.Invalid},
		{".", fsys.Invalid, fsys.Invalid},
		{"", fsys.Invalid, fsys.Invalid},
		{"a\xffb", fsys.Invalid, fsys.Invalid},
		{long, fsys.Invalid, fsys.Internal},
		{long + "n", fsys.NameTooLong, fsys.NameTooLong},
		{"Grüße, 世界", fsys.Invalid, fsys.Internal},
		{"-rf", fsys.Invalid, fsys.Internal},
		{".hidden", fsys.Invalid, fsys.Internal},
		{"with space", fsys.Invalid, fsys.Internal},
		{"line\nbreak", fsys.Invalid, fsys.Internal},
		{strings.Repeat("n", 63), fsys.Internal, fsys.Internal},
	} {
		t.Run(fmt.Sprintf("%.20q", c.name), func(t *testing.T) {
			r := &tree{t, r.client, r.root}
			what := func(err error, want fsys.Code) {
				t.Helper()
				if want == fsys.Internal && err != nil || want != fsys.Internal && fsys.CodeOf(err) != want {
					t.Errorf("got %v, want %v", err, want)
				}
			}
			what(r.tryMkdir("agents", c.name), c.agent)
			what(r.tryMkdir("agents/alice/goals", c.name), c.goal)
			if c.goal == fsys.Internal {
				equal(t, "listed", strings.Contains(r.list("agents/alice/goals"), c.name), true)
				r.remove("agents/alice/goals/" + c.name)
			}
			what(r.tryMake("agents/alice/goals", c.name, "text"), c.goal)
			if c.goal == fsys.Internal {
				equal(t, "text", r.read("agents/alice/goals/"+c.name), "text")
				r.remove("agents/alice/goals/" + c.name)
			}
			goals, err := fsys.WalkPath(within(t), r.root, "agents/alice/goals")
			if err != nil {
				t.Fatal(err)
			}
			what(fsys.Rename(within(t), goals, "kept", c.name), c.goal)
			if c.goal == fsys.Internal {
				if err := fsys.Rename(within(t), goals, c.name, "kept"); err != nil {
					t.Error(err)
				}
			}
			equal(t, "kept", r.read("agents/alice/goals/kept"), "as it was")
		})
	}
	equal(t, "agents", r.list("agents"), "alice "+strings.Repeat("n", 63))
}

// The library refuses bad names itself, so these go to the daemon as they are.
func TestNamesOnTheWire(t *testing.T) {
	d, r, _ := oneAgent(t)
	for _, name := range []string{"a/b", "/", "a\x00b", "..", ".", "", "a\xffb", strings.Repeat("n", 256)} {
		w := rawDial(t, d)
		w.session("/agents/alice/goals")
		w.send(72, u32(1), str(name), u32(0o755), u32(0)) // Tmkdir
		typ, body := w.receive()
		if typ != 7 { // Rlerror; a name that is not UTF-8 may also end the connection
			t.Errorf("Tmkdir %.20q: got a message of type %d, want Rlerror", name, typ)
		} else if errno := body[0]; errno != 22 && errno != 36 && errno != 17 {
			t.Errorf("Tmkdir %.20q: got errno %d", name, errno)
		}
	}
	equal(t, "goals", r.list("agents/alice/goals"), "")
	equal(t, "agents", r.list("agents"), "alice")
}

func TestRemovingWhatIsOpen(t *testing.T) {
	d, _, alice := oneAgent(t)
	alice.make("goals", "plan", "first line\n")
	other := d.at("/agents/alice")
	reading, writing := other.open("goals/plan", fsys.Read), other.open("goals/plan", fsys.Write)
	alice.remove("goals/plan")
	refused(t, "the removed file", alice.tryWrite("goals/plan", "x"), fsys.NotExist)
	if _, err := fsys.WriteAt(within(t), writing, []byte("second"), 11); err != nil {
		t.Errorf("writing what was removed: %v", err)
	}
	b, err := fsys.ReadAll(within(t), reading)
	if err != nil || string(b) != "first line\nsecond" {
		t.Errorf("reading what was removed: got %q, %v", b, err)
	}
	alice.make("goals", "plan", "another")
	if err := fsys.Finish(within(t), writing); err != nil {
		t.Errorf("closing what was removed: %v", err)
	}
	equal(t, "the new file", alice.read("goals/plan"), "another")

	// A message that is being read is acknowledged once, by who removes it.
	id := alice.ask("inbox/new", "one")
	alice.write("inbox/new", "two")
	next := other.open("inbox/next", fsys.Read)
	line, err := fsys.ReadAll(within(t), next)
	if err != nil {
		t.Fatal(err)
	}
	has(t, "next", string(line), id)
	alice.remove("inbox/" + id)
	if err := fsys.Finish(within(t), next); err != nil {
		t.Errorf("closing a message that was removed meanwhile: %v", err)
	}
	equal(t, "files in inbox", len(strings.Fields(alice.list("inbox")))-len(strings.Fields(inboxFiles)), 1)
	has(t, "next", alice.read("inbox/next"), `"body":"two"`)
	equal(t, "inbox", alice.list("inbox"), inboxFiles)
}

func TestFullInbox(t *testing.T) {
	_, _, alice := oneAgent(t)
	bodies := func(dir string) (all string) {
		for _, name := range strings.Fields(alice.list(dir)) {
			if !strings.Contains(inboxFiles+" ctl", name) {
				_, body, _ := strings.Cut(alice.read(dir+"/"+name), `"body":"`)
				body, _, _ = strings.Cut(body, `"`)
				all += body + " "
			}
		}
		return strings.TrimSpace(all)
	}
	fill := func(overflow string) {
		t.Helper()
		alice.write("config", `{"inbox": {"limit": 2, "overflow": "`+overflow+`"}}`)
		for bodies("inbox") != "" {
			alice.read("inbox/next")
		}
		alice.write("inbox/new", "one")
		alice.write("inbox/new", "two")
	}

	fill("refuse")
	refused(t, "refuse", alice.tryWrite("inbox/new", "three"), fsys.Busy, "the inbox is full")
	equal(t, "inbox", bodies("inbox"), "one two")
	equal(t, "deadletter", bodies("deadletter"), "")
	has(t, "logs/errors", lastLine(alice.tail("logs/errors")), `"path":"/inbox/new"`, `"op":"open"`, `"code":"busy"`, `"reason":"the inbox is full"`)

	fill("drop-oldest")
	alice.write("inbox/new", "three")
	equal(t, "inbox", bodies("inbox"), "two three")
	equal(t, "deadletter", bodies("deadletter"), "")
	has(t, "logs/recent", alice.read("logs/recent"), `"event":"inbox.dropped"`)

	fill("deadletter")
	alice.write("inbox/new", "three")
	equal(t, "inbox", bodies("inbox"), "one two")
	equal(t, "deadletter", bodies("deadletter"), "three")
	refused(t, "replay", alice.tryWrite("deadletter/ctl", "replay all"), fsys.Busy, "the inbox is full: 0 replayed, 1 left")
	alice.read("inbox/next")
	alice.write("deadletter/ctl", "replay all")
	equal(t, "inbox", bodies("inbox"), "two three")
	equal(t, "deadletter", bodies("deadletter"), "")
	has(t, "status", alice.read("status"), `"inbox":2,"deadletter":0`)
}
