package process

import (
	"agent9/conformance/daemon"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// A house is a machine on which nothing of agent9 runs yet: a home, and the
// programs in the PATH.
type house struct {
	t    *testing.T
	home string
	vars []string
}

func newHouse(t *testing.T) *house {
	t.Helper()
	bin := t.TempDir()
	if err := os.Symlink(daemon.Agentctl(t), filepath.Join(bin, "agentctl")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(daemon.Agentd(t).Path, filepath.Join(bin, "agentd")); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "a9") // short, for the socket
	if err != nil {
		t.Fatal(err)
	}
	h := &house{t: t, home: dir}
	for _, name := range []string{"run", "home"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	h.vars = append(os.Environ(), "HOME="+dir+"/home", "XDG_RUNTIME_DIR="+dir+"/run", "XDG_STATE_HOME="+dir+"/state",
		"PATH="+bin+":"+os.Getenv("PATH"), "AGENT9_ADDR=", "AGENT9_TOKEN=", "OPENAI_API_KEY=", "ANTHROPIC_API_KEY=", "PS1=$ ", "TERM=dumb")
	t.Cleanup(func() {
		h.bash("agentctl umount ~/alice 2>/dev/null; cd /; echo shutdown | agentctl --wait 0s put ctl")
		if b, err := os.ReadFile(h.log()); t.Failed() && err == nil {
			t.Logf("the log of the daemon:\n%s", b)
		}
		os.RemoveAll(dir)
	})
	return h
}

func (h *house) log() string { return h.home + "/state/agent9/agentd.log" }

// bash runs a script, and returns what it printed, and its exit status.
func (h *house) bash(script string) (string, int) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), daemon.Limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", script)
	cmd.Env = h.vars
	out, _ := cmd.CombinedOutput()
	return string(out), cmd.ProcessState.ExitCode()
}

func TestBackground(t *testing.T) {
	h := newHouse(t)
	out, status := h.bash("agentd --background && agentctl --wait 0s create alice")
	if status != 0 || !strings.Contains(out, "listening on unix:"+h.home+"/run/agent9.sock\n") || !strings.Contains(out, "its log is "+h.log()+"\n") {
		t.Fatalf("it ended with %d, and said:\n%s", status, out)
	}
	pid, _ := strconv.Atoi(regexp.MustCompile(`as process (\d+)`).FindStringSubmatch(out)[1])
	if sid, err := getsid(pid); err != nil || sid != pid {
		t.Errorf("the daemon is in the session %d, %v; want its own, %d", sid, err, pid)
	}
	out, status = h.bash("agentd --background")
	if status != 1 || !strings.Contains(out, "agentd: the database ") || !strings.Contains(out, "in use by another daemon") {
		t.Errorf("a second one ended with %d, and said:\n%s", status, out)
	}
	out, status = h.bash("agentd --background --compute nonsense")
	if status != 2 || !strings.Contains(out, "want ID=DRIVER:TARGET") {
		t.Errorf("with a bad flag it ended with %d, and said:\n%s", status, out)
	}
	out, status = h.bash("NOTIFY_SOCKET=/nowhere agentd --background")
	if status != 2 || !strings.Contains(out, "leave --background out") {
		t.Errorf("under a service manager it ended with %d, and said:\n%s", status, out)
	}
	out, status = h.bash("agentctl --wait 0s list; echo shutdown | agentctl put ctl")
	if status != 0 || !strings.Contains(out, "alice") {
		t.Errorf("after all that: %d, %s", status, out)
	}
}

func getsid(pid int) (int, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	return strconv.Atoi(strings.Fields(rest)[3])
}

// A client that is quicker than its daemon waits for it; one whose daemon does
// not come is told.
func TestClientWaitsForDaemon(t *testing.T) {
	h := newHouse(t)
	out, status := h.bash("agentctl --wait 300ms list")
	if status != 15 || !strings.Contains(out, "agentctl: waiting for agentd at unix:"+h.home+"/run/agent9.sock\n") || !strings.Contains(out, "no daemon there; start it with agentd --background") {
		t.Errorf("without a daemon it ended with %d, and said:\n%s", status, out)
	}
	if out, _ := h.bash("agentctl --wait 0s list"); strings.Contains(out, "waiting") {
		t.Errorf("with --wait 0s: %s", out)
	}
	out, status = h.bash("(sleep 0.5; exec agentd) >/dev/null 2>&1 & agentctl --wait 60s create alice && agentctl list")
	if status != 0 || !strings.Contains(out, "waiting for agentd") || !strings.Contains(out, "alice  active") {
		t.Errorf("agentd & agentctl create: %d, %s", status, out)
	}
}

// The lines of the README can be pasted into a shell as a whole.
func TestReadmeCanBePasted(t *testing.T) {
	if _, err := os.Stat("/dev/fuse"); err != nil {
		t.Skip("no FUSE here: ", err)
	}
	const build = "make build && PATH=$PWD/bin:$PATH\n"
	text := shellIn(t, "../../README.md")
	if !strings.Contains(text, build) {
		t.Fatalf("the README does not begin with %s", build)
	}
	shown := pasted(t, strings.Replace(text, build, "", 1))
	for _, want := range []string{"\n{\"id\":", "good morning", "\nWhy is the sky blue?"} {
		daemon.Has(t, "what the paste showed", shown, want)
	}
}

// So can the manual of sessions.
func TestSessionsCanBePasted(t *testing.T) {
	if _, err := os.Stat("/dev/fuse"); err != nil {
		t.Skip("no FUSE here: ", err)
	}
	const mount = "agentd --background && agentctl create alice && mkdir ~/alice && agentctl mount ~/alice alice\n"
	shown := pasted(t, mount+strings.ReplaceAll(shellIn(t, "../../docs/sessions.md"), "/n/alice", "~/alice")+"ls | wc -l\n")
	shown = strings.ReplaceAll(shown, "\n$ ", "\n") // the answer comes beside the shell's own words
	for _, want := range []string{`"title":"plans for today"`, "\nWhat is on today?", `"outcome":"done"`, `"event":"ended"`, "\n1\n"} {
		daemon.Has(t, "what the paste showed", shown, want)
	}
}

// shellIn returns the shell commands of a manual.
func shellIn(t *testing.T, file string) string {
	t.Helper()
	manual, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllSubmatch(manual, -1) {
		all.Write(block[1])
	}
	return all.String()
}

// pasted is what a shell at a terminal shows when text is pasted into it.
func pasted(t *testing.T, text string) string {
	t.Helper()
	h := newHouse(t)
	cmd := exec.CommandContext(daemon.Within(t), "bash", "--norc", "--noprofile", "-i")
	cmd.Env, cmd.Dir = h.vars, h.home+"/home"
	p := daemon.AtTerminal(t, 40, 120, cmd)
	go io.WriteString(p.In, text+"echo the paste is o''ver; exit 0\n")
	p.Sees("the paste is over")
	daemon.Equal(t, "exit", p.Ends(), 0)
	shown := strings.ReplaceAll(p.Seen(), "\r\n", "\n")
	for _, wrong := range []string{"command not found", "syntax error", "waiting for agentd", "no daemon", "not a directory", "compute/jobs//output", "busy", "Invalid argument"} {
		if strings.Contains(shown, wrong) {
			t.Errorf("the paste showed %q:\n%s", wrong, shown)
		}
	}
	return shown
}
