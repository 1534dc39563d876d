package agents

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"agent9/conformance/daemon"
	"agent9/fsys"
)

// garbage is what agentd may have beyond what it needs, before it collects.
const garbage = 32 << 20

func TestHalfWrittenJSON(t *testing.T) {
	_, _, alice := daemon.OneAgent(t)
	config := alice.Read("config")
	for _, c := range []struct{ path, text, reason string }{
		{"inbox/new", `{"body": "half`, "the JSON object is not complete"},
		{"config", `{"accept": ["bob"`, "not a whole JSON value; nothing was changed"},
	} {
		err := alice.TryWrite(c.path, c.text)
		daemon.Refused(t, c.path, err, fsys.Invalid, c.reason)
		daemon.Has(t, "logs/errors", daemon.LastLine(alice.Tail("logs/errors")),
			`"path":"/`+c.path+`"`, `"op":"sync"`, `"code":"invalid"`, `"reason":"`+c.reason, `"by":"operator"`)
	}
	daemon.Equal(t, "config", alice.Read("config"), config)
	daemon.Equal(t, "inbox", alice.List("inbox"), daemon.InboxFiles)

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
		daemon.Refused(t, c.path, alice.TryWrite(c.path, c.text), fsys.Invalid, strings.ReplaceAll(c.reason, `\`, ""))
		daemon.Has(t, "logs/errors", daemon.LastLine(alice.Tail("logs/errors")), `"path":"/`+c.path+`"`, `"op":"write"`, `"code":"invalid"`, c.reason)
	}
	daemon.Equal(t, "config", alice.Read("config"), config)
	daemon.Equal(t, "inbox", alice.List("inbox"), daemon.InboxFiles)
}

// A hang-up in the middle of a request is not its end.
func TestHangUpInRequest(t *testing.T) {
	d, _, alice := daemon.OneAgent(t)
	other := d.At("/agents/alice")
	for _, text := range []string{`{"body": 1`, "plain text"} {
		h := other.Open("inbox/new", fsys.Write)
		if _, err := fsys.WriteAt(daemon.Within(t), h, []byte(text), 0); err != nil {
			t.Fatal(err)
		}
	}
	// The daemon has noticed when a message that this connection had taken is
	// back.
	id := alice.Ask("inbox/new", "taken")
	taken := other.Begin(other.Open("inbox/next", fsys.Read))
	taken.Ends(t)
	daemon.Has(t, "what was taken", taken.Text, id)
	other.Client.Close()
	daemon.Has(t, "what is back", alice.Read("inbox/next"), id)
	daemon.Equal(t, "inbox", alice.List("inbox"), daemon.InboxFiles)
	daemon.Equal(t, "logs/errors", alice.Tail("logs/errors"), "")
}

func TestHugeRequest(t *testing.T) {
	d, _, alice := daemon.OneAgent(t)
	for _, text := range []string{"x", `{"body":"` + strings.Repeat("x", 1000)} {
		before := residentKiB(t, d)
		h := alice.Open("inbox/new", fsys.Write)
		piece := []byte(strings.Repeat(text, 1<<20/len(text)))
		sent := 0
		var err error
		for sent < 100<<20 && err == nil {
			var n int
			n, err = fsys.WriteAt(daemon.Within(t), h, piece, int64(sent))
			sent += n
		}
		daemon.Refused(t, "100 MB", err, fsys.TooLarge, "longer than this file accepts")
		if sent > 2<<20 {
			t.Errorf("it was refused after %d bytes", sent)
		}
		// A client that does not care goes on.
		for range 98 {
			if _, err := fsys.WriteAt(daemon.Within(t), h, piece, int64(sent)); fsys.CodeOf(err) != fsys.TooLarge {
				t.Fatalf("a write after that: %v", err)
			}
		}
		h.Close()
		// 64 MiB, and the garbage that may lie there before it is collected.
		if grown := residentKiB(t, d) - before; grown > 64<<10+2*garbage>>10 {
			t.Errorf("the daemon has grown by %d KiB", grown)
		}
	}
	daemon.Equal(t, "inbox", alice.List("inbox"), daemon.InboxFiles)
	daemon.Has(t, "logs/errors", alice.Tail("logs/errors"), `"path":"/inbox/new"`, `"code":"too-large"`)
	daemon.Equal(t, "code", fsys.TooLarge.Errno(), 27)
	alice.Write("inbox/new", "a short one")
	daemon.Equal(t, "files in inbox", len(strings.Fields(alice.List("inbox")))-len(strings.Fields(daemon.InboxFiles)), 1)
}

// residentKiB is how much memory the daemon has.
func residentKiB(t *testing.T, d *daemon.Daemon) int {
	t.Helper()
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", d.Cmd.Process.Pid))
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
	_, r, _ := daemon.OneAgent(t)
	long := strings.Repeat("n", 255)
	r.Make("agents/alice/goals", "kept", "as it was")
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
			r := &daemon.Tree{T: t, Client: r.Client, Root: r.Root}
			what := func(err error, want fsys.Code) {
				t.Helper()
				if want == fsys.Internal && err != nil || want != fsys.Internal && fsys.CodeOf(err) != want {
					t.Errorf("got %v, want %v", err, want)
				}
			}
			what(r.TryMkdir("agents", c.name), c.agent)
			what(r.TryMkdir("agents/alice/goals", c.name), c.goal)
			if c.goal == fsys.Internal {
				daemon.Equal(t, "listed", strings.Contains(r.List("agents/alice/goals"), c.name), true)
				r.Remove("agents/alice/goals/" + c.name)
			}
			what(r.TryMake("agents/alice/goals", c.name, "text"), c.goal)
			if c.goal == fsys.Internal {
				daemon.Equal(t, "text", r.Read("agents/alice/goals/"+c.name), "text")
				r.Remove("agents/alice/goals/" + c.name)
			}
			goals, err := fsys.WalkPath(daemon.Within(t), r.Root, "agents/alice/goals")
			if err != nil {
				t.Fatal(err)
			}
			what(fsys.Rename(daemon.Within(t), goals, "kept", c.name), c.goal)
			if c.goal == fsys.Internal {
				if err := fsys.Rename(daemon.Within(t), goals, c.name, "kept"); err != nil {
					t.Error(err)
				}
			}
			daemon.Equal(t, "kept", r.Read("agents/alice/goals/kept"), "as it was")
		})
	}
	daemon.Equal(t, "agents", r.List("agents"), "alice "+strings.Repeat("n", 63))
}

// The library refuses bad names itself, so these go to the daemon as they are.
func TestNamesOnTheWire(t *testing.T) {
	d, r, _ := daemon.OneAgent(t)
	for _, name := range []string{"a/b", "/", "a\x00b", "..", ".", "", "a\xffb", strings.Repeat("n", 256)} {
		w := daemon.RawDial(t, d)
		w.Session("/agents/alice/goals")
		w.Send(72, daemon.U32(1), daemon.Str(name), daemon.U32(0o755), daemon.U32(0)) // Tmkdir
		typ, body := w.Receive()
		if typ != 7 { // Rlerror; a name that is not UTF-8 may also end the connection
			t.Errorf("Tmkdir %.20q: got a message of type %d, want Rlerror", name, typ)
		} else if errno := body[0]; errno != 22 && errno != 36 && errno != 17 {
			t.Errorf("Tmkdir %.20q: got errno %d", name, errno)
		}
	}
	daemon.Equal(t, "goals", r.List("agents/alice/goals"), "")
	daemon.Equal(t, "agents", r.List("agents"), "alice")
}

func TestRemovingWhatIsOpen(t *testing.T) {
	d, _, alice := daemon.OneAgent(t)
	alice.Make("goals", "plan", "first line\n")
	other := d.At("/agents/alice")
	reading, writing := other.Open("goals/plan", fsys.Read), other.Open("goals/plan", fsys.Write)
	alice.Remove("goals/plan")
	daemon.Refused(t, "the removed file", alice.TryWrite("goals/plan", "x"), fsys.NotExist)
	if _, err := fsys.WriteAt(daemon.Within(t), writing, []byte("second"), 11); err != nil {
		t.Errorf("writing what was removed: %v", err)
	}
	b, err := fsys.ReadAll(daemon.Within(t), reading)
	if err != nil || string(b) != "first line\nsecond" {
		t.Errorf("reading what was removed: got %q, %v", b, err)
	}
	alice.Make("goals", "plan", "another")
	if err := fsys.Finish(daemon.Within(t), writing); err != nil {
		t.Errorf("closing what was removed: %v", err)
	}
	daemon.Equal(t, "the new file", alice.Read("goals/plan"), "another")

	// A message that is being read is acknowledged once, by who removes it.
	id := alice.Ask("inbox/new", "one")
	alice.Write("inbox/new", "two")
	next := other.Open("inbox/next", fsys.Read)
	line, err := fsys.ReadAll(daemon.Within(t), next)
	if err != nil {
		t.Fatal(err)
	}
	daemon.Has(t, "next", string(line), id)
	alice.Remove("inbox/" + id)
	if err := fsys.Finish(daemon.Within(t), next); err != nil {
		t.Errorf("closing a message that was removed meanwhile: %v", err)
	}
	daemon.Equal(t, "files in inbox", len(strings.Fields(alice.List("inbox")))-len(strings.Fields(daemon.InboxFiles)), 1)
	daemon.Has(t, "next", alice.Read("inbox/next"), `"body":"two"`)
	daemon.Equal(t, "inbox", alice.List("inbox"), daemon.InboxFiles)
}

func TestFullInbox(t *testing.T) {
	_, _, alice := daemon.OneAgent(t)
	bodies := func(dir string) (all string) {
		for _, name := range strings.Fields(alice.List(dir)) {
			if !strings.Contains(daemon.InboxFiles+" ctl", name) {
				_, body, _ := strings.Cut(alice.Read(dir+"/"+name), `"body":"`)
				body, _, _ = strings.Cut(body, `"`)
				all += body + " "
			}
		}
		return strings.TrimSpace(all)
	}
	fill := func(overflow string) {
		t.Helper()
		alice.Write("config", `{"inbox": {"limit": 2, "overflow": "`+overflow+`"}}`)
		for bodies("inbox") != "" {
			alice.Read("inbox/next")
		}
		alice.Write("inbox/new", "one")
		alice.Write("inbox/new", "two")
	}

	fill("refuse")
	daemon.Refused(t, "refuse", alice.TryWrite("inbox/new", "three"), fsys.Busy, "the inbox is full")
	daemon.Equal(t, "inbox", bodies("inbox"), "one two")
	daemon.Equal(t, "deadletter", bodies("deadletter"), "")
	daemon.Has(t, "logs/errors", daemon.LastLine(alice.Tail("logs/errors")), `"path":"/inbox/new"`, `"op":"open"`, `"code":"busy"`, `"reason":"the inbox is full"`)

	fill("drop-oldest")
	alice.Write("inbox/new", "three")
	daemon.Equal(t, "inbox", bodies("inbox"), "two three")
	daemon.Equal(t, "deadletter", bodies("deadletter"), "")
	daemon.Has(t, "logs/recent", alice.Read("logs/recent"), `"event":"inbox.dropped"`)

	fill("deadletter")
	alice.Write("inbox/new", "three")
	daemon.Equal(t, "inbox", bodies("inbox"), "one two")
	daemon.Equal(t, "deadletter", bodies("deadletter"), "three")
	daemon.Refused(t, "replay", alice.TryWrite("deadletter/ctl", "replay all"), fsys.Busy, "the inbox is full: 0 replayed, 1 left")
	alice.Read("inbox/next")
	alice.Write("deadletter/ctl", "replay all")
	daemon.Equal(t, "inbox", bodies("inbox"), "two three")
	daemon.Equal(t, "deadletter", bodies("deadletter"), "")
	daemon.Has(t, "status", alice.Read("status"), `"inbox":2,"deadletter":0`)
}
