//go:build linux

package sandboxes

import (
	"agent9/conformance/daemon"
	"bytes"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
)

// sandboxed starts a daemon whose agent alice has sandboxes.
func sandboxed(t *testing.T) *daemon.Daemon {
	t.Helper()
	daemon.HelperFor(t)
	d := daemon.Start(t, "--containers", "main=bwrap:")
	if h := d.RootWith(t, "alice").Read("agents/alice/containers/providers/main/health"); !strings.Contains(h, `"ok":true`) {
		t.Skip(h)
	}
	return d
}

// program is agentctl, to be started.
func program(d *daemon.Daemon, t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := daemon.CtlCommand(t, "unix:"+d.Sock(), args...)
	cmd.Env = append(os.Environ(), "AGENT9_TOKEN=", "TERM=xterm-color")
	return cmd
}

// lastSession is what became of the session of alice that was made last.
func lastSession(d *daemon.Daemon, t *testing.T) string {
	t.Helper()
	r := d.As(t).Root()
	const dir = "agents/alice/containers/sessions"
	names := strings.Fields(r.List(dir))
	last := names[len(names)-1]
	r.Read(dir + "/" + last + "/result")
	return r.Read(dir + "/" + last + "/status")
}

// agentctl run is like the program that it runs.
func TestRunInASandbox(t *testing.T) {
	d := sandboxed(t)
	for _, c := range []struct {
		what     string
		in       string
		args     []string
		exit     int
		out, err string // standard output, and words of standard error
		state    string // of the session
	}{
		{"a line", "", []string{"alice", "echo out; echo err >&2; exit 7"}, 7, "out\n", "err\n", "failed"},
		{"a program", "", []string{"alice", "--", "printf", "%s|", "a b", "$HOME"}, 0, "a b|$HOME|", "", "done"},
		{"no program", "", []string{"alice", "--", "no-such-program"}, 127, "", "no-such-program", "failed"},
		{"no input", "not for it", []string{"alice", "cat; echo over"}, 0, "over\n", "", "done"},
		{"input", "two\nlines\n", []string{"-i", "alice", "cat; echo over >&2; exit 3"}, 3, "two\nlines\n", "over\n", "stopped"},
		{"much input", strings.Repeat("x", 3<<20), []string{"--stdin", "alice", "--", "wc", "-c"}, 0, "3145728\n", "", "stopped"},
		{"input that nobody reads", strings.Repeat("x", 3<<20), []string{"--stdin", "alice", "exit 4"}, 4, "", "", "stopped"},
		{"out of time", "", []string{"--time", "1", "alice", "echo begun; sleep 1000"}, 124, "begun\n", "ran out of time", "failed"},
		{"killed", "", []string{"alice", "kill -9 $$"}, 137, "", "", "failed"},
		{"refused", "", []string{"alice", "--network", "true"}, 5, "", "the policy allows no network", ""},
		{"no image", "", []string{"--image", "nowhere", "alice", "true"}, 3, "", "there is no image nowhere", "failed"},
		{"input for nobody", "", []string{"-i", "-d", "alice", "true"}, 2, "", "--detach", ""},
	} {
		t.Run(c.what, func(t *testing.T) {
			cmd := program(d, t, append([]string{"run"}, c.args...)...)
			var out, errs strings.Builder
			cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(c.in), &out, &errs
			cmd.Run()
			if got := cmd.ProcessState.ExitCode(); got != c.exit || out.String() != c.out || !strings.Contains(errs.String(), c.err) || c.err == "" && errs.Len() > 0 {
				t.Errorf("it exited with %d and wrote %.200q and %.500q, want %d, %.200q, %q", got, out.String(), errs.String(), c.exit, c.out, c.err)
			}
			if c.state != "" {
				daemon.Has(t, "the session", lastSession(d, t), `"state":"`+c.state+`"`)
			}
		})
	}
	t.Run("keep", func(t *testing.T) {
		cmd := program(d, t, "run", "--keep", "alice", "cat; echo here > file; exit 2")
		var errs strings.Builder
		cmd.Stderr = &errs
		cmd.Stdin = strings.NewReader("not for it")
		out, _ := cmd.Output()
		daemon.Equal(t, "exit", cmd.ProcessState.ExitCode(), 2)
		daemon.Equal(t, "output", string(out), "")
		dir := strings.TrimSuffix(errs.String(), "\n")
		r := d.As(t).Root()
		daemon.Equal(t, "the file", r.Read(dir+"/files/workspace/file"), "here\n")
		r.Write(dir+"/ctl", "stop")
		daemon.Has(t, "the session", lastSession(d, t), `"state":"stopped"`)
	})
	for _, args := range [][]string{{"alice"}, {"-i", "alice"}} {
		t.Run("an interrupt, "+strings.Join(args, " "), func(t *testing.T) {
			cmd := program(d, t, append(append([]string{"run"}, args...), "echo begun; trap '' INT TERM; while :; do sleep 0.2; done")...)
			in, err := cmd.StdinPipe() // which has nothing, and does not end
			if err != nil {
				t.Fatal(err)
			}
			defer in.Close()
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(out, make([]byte, len("begun\n"))); err != nil {
				t.Fatal(err)
			}
			begun := time.Now()
			cmd.Process.Signal(os.Interrupt)
			io.Copy(io.Discard, out)
			cmd.Wait()
			daemon.Equal(t, "exit", cmd.ProcessState.ExitCode(), 130)
			if took := time.Since(begun); took > 10*time.Second {
				t.Errorf("it took %v to end", took)
			}
			daemon.Has(t, "the session", lastSession(d, t), `"state":"stopped"`)
		})
	}
}

// types starts agentctl at a terminal of this size.
func types(d *daemon.Daemon, t *testing.T, rows, cols uint16, args ...string) *daemon.Typist {
	t.Helper()
	return daemon.AtTerminal(t, rows, cols, program(d, t, args...))
}

// agentctl shell is a terminal in the sandbox.
func TestShellInASandbox(t *testing.T) {
	d := sandboxed(t)
	const prompt = "ready> "
	at := func(t *testing.T) *daemon.Typist {
		p := types(d, t, 30, 90, "shell", "alice", "--", "sh", "-c", "PS1='"+prompt+"' exec sh -i")
		p.Sees(prompt)
		return p
	}
	t.Run("size, keys and exit", func(t *testing.T) {
		p := at(t)
		p.Key("tty >/dev/null && stty size; echo $TERM\r")
		p.Sees("\n30 90\r\nxterm-color\r\n")
		if err := pty.Setsize(p.Screen, &pty.Winsize{Rows: 40, Cols: 120}); err != nil {
			t.Fatal(err)
		}
		p.Key("until stty size | grep '40 1'; do sleep 0.1; done\r")
		p.Sees("\n40 120\r\n")
		p.Key("echo sleeping''; sleep 1000\r")
		p.Sees("\nsleeping\r\n")
		p.Key("\x03")
		p.Sees("^C")
		p.Key("echo status=$?\r")
		p.Sees("status=130\r\n")
		p.Key("exit 5\r")
		daemon.Equal(t, "exit", p.Ends(), 5)
		daemon.Has(t, "the session", lastSession(d, t), `"state":"stopped"`)
	})
	t.Run("Ctrl-D", func(t *testing.T) {
		p := at(t)
		p.Key("cat\rone\r")
		p.Sees("\none\r\none\r\n")
		p.Key("\x04")
		p.Sees("one\r\n" + prompt)
		p.Key("false\r")
		p.Key("\x04")
		daemon.Equal(t, "exit", p.Ends(), 1)
		daemon.Has(t, "the session", lastSession(d, t), `"state":"stopped"`)
	})
	t.Run("of a session", func(t *testing.T) {
		r := d.As(t).Root()
		n := r.Ask("agents/alice/containers/new", `{"keep":true,"commands":["echo here > file"]}`)
		p := types(d, t, 24, 80, "shell", "alice", n, "--", "sh", "-c", "until [ -s file ]; do sleep 0.1; done; cat file; read x; echo got $x; exit 6")
		p.Sees("here\r\n")
		p.Key("it\r")
		p.Sees("got it\r\n")
		daemon.Equal(t, "exit", p.Ends(), 6)
		daemon.Has(t, "the session", r.Read("agents/alice/containers/sessions/"+n+"/status"), `"state":"running"`)

		cmd := program(d, t, "shell", "alice", n, "--", "sh", "-s")
		cmd.Stdin = strings.NewReader("cat file\necho err >&2\nexit 8\n")
		var errs bytes.Buffer
		cmd.Stderr = &errs
		out, _ := cmd.Output()
		daemon.Equal(t, "a script's exit", cmd.ProcessState.ExitCode(), 8)
		daemon.Equal(t, "a script's output", string(out)+errs.String(), "here\nerr\n")
		r.Write("agents/alice/containers/sessions/"+n+"/ctl", "stop")
		lastSession(d, t)
	})
	t.Run("the terminal hangs up", func(t *testing.T) {
		p := at(t)
		p.Screen.Close() // the kernel sends SIGHUP
		daemon.Equal(t, "exit", p.Ends(), 130)
		daemon.Has(t, "the session", lastSession(d, t), `"state":"stopped"`)
	})
	t.Run("the terminal hangs up, and SIGHUP is ignored", func(t *testing.T) {
		cmd := program(d, t, "shell", "alice", "--", "sh", "-c", "PS1='"+prompt+"' exec sh -i")
		cmd.Args = append([]string{"sh", "-c", `trap "" HUP; exec "$@"`, "sh", cmd.Path}, cmd.Args[1:]...) // as nohup has it
		cmd.Path = "/bin/sh"
		p := daemon.AtTerminal(t, 30, 90, cmd)
		p.Sees(prompt)
		p.Screen.Close()
		daemon.Equal(t, "exit", p.Ends(), 130)
		daemon.Has(t, "the session", lastSession(d, t), `"state":"stopped"`)
	})
}
