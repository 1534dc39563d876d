//go:build linux

package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
)

// sandboxed starts a daemon whose agent alice has sandboxes.
func sandboxed(t *testing.T) *daemon {
	t.Helper()
	helperFor(t)
	d := startDaemon(t, "--containers", "main=bwrap:")
	if h := d.rootWith(t, "alice").read("agents/alice/containers/providers/main/health"); !strings.Contains(h, `"ok":true`) {
		t.Skip(h)
	}
	return d
}

// program is agentctl, to be started.
func (d *daemon) program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := ctlCommand(t, "unix:"+d.sock(), args...)
	cmd.Env = append(os.Environ(), "AGENT9_TOKEN=", "TERM=xterm-color")
	return cmd
}

// lastSession is what became of the session of alice that was made last.
func (d *daemon) lastSession(t *testing.T) string {
	t.Helper()
	r := d.as(t).root()
	const dir = "agents/alice/containers/sessions"
	names := strings.Fields(r.list(dir))
	last := names[len(names)-1]
	r.read(dir + "/" + last + "/result")
	return r.read(dir + "/" + last + "/status")
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
			cmd := d.program(t, append([]string{"run"}, c.args...)...)
			var out, errs strings.Builder
			cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(c.in), &out, &errs
			cmd.Run()
			if got := cmd.ProcessState.ExitCode(); got != c.exit || out.String() != c.out || !strings.Contains(errs.String(), c.err) || c.err == "" && errs.Len() > 0 {
				t.Errorf("it exited with %d and wrote %.200q and %.500q, want %d, %.200q, %q", got, out.String(), errs.String(), c.exit, c.out, c.err)
			}
			if c.state != "" {
				has(t, "the session", d.lastSession(t), `"state":"`+c.state+`"`)
			}
		})
	}
	t.Run("keep", func(t *testing.T) {
		cmd := d.program(t, "run", "--keep", "alice", "cat; echo here > file; exit 2")
		var errs strings.Builder
		cmd.Stderr = &errs
		cmd.Stdin = strings.NewReader("not for it")
		out, _ := cmd.Output()
		equal(t, "exit", cmd.ProcessState.ExitCode(), 2)
		equal(t, "output", string(out), "")
		dir := strings.TrimSuffix(errs.String(), "\n")
		r := d.as(t).root()
		equal(t, "the file", r.read(dir+"/files/workspace/file"), "here\n")
		r.write(dir+"/ctl", "stop")
		has(t, "the session", d.lastSession(t), `"state":"stopped"`)
	})
	for _, args := range [][]string{{"alice"}, {"-i", "alice"}} {
		t.Run("an interrupt, "+strings.Join(args, " "), func(t *testing.T) {
			cmd := d.program(t, append(append([]string{"run"}, args...), "echo begun; trap '' INT TERM; while :; do sleep 0.2; done")...)
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
			equal(t, "exit", cmd.ProcessState.ExitCode(), 130)
			if took := time.Since(begun); took > 10*time.Second {
				t.Errorf("it took %v to end", took)
			}
			has(t, "the session", d.lastSession(t), `"state":"stopped"`)
		})
	}
}

// A typist is somebody at a terminal.
type typist struct {
	*chatter
	screen *os.File
}

// types starts agentctl at a terminal of this size.
func (d *daemon) types(t *testing.T, rows, cols uint16, args ...string) *typist {
	t.Helper()
	return atTerminal(t, rows, cols, d.program(t, args...))
}

func atTerminal(t *testing.T, rows, cols uint16, cmd *exec.Cmd) *typist {
	t.Helper()
	p := &typist{chatter: &chatter{t: t, cmd: cmd}}
	f, err := pty.StartWithSize(p.cmd, &pty.Winsize{Rows: rows, Cols: cols})
	if err != nil {
		t.Fatal(err)
	}
	fd, err := syscall.Dup(int(f.Fd()))
	if err == nil {
		err = syscall.SetNonblock(fd, true) // so that it can be closed while it is read
	}
	if f.Close(); err != nil {
		t.Fatal(err)
	}
	f = os.NewFile(uintptr(fd), "terminal")
	p.in, p.screen = f, f
	shown := make(chan struct{})
	go func() {
		defer close(shown)
		io.Copy(p, f) // until the terminal hangs up
	}()
	t.Cleanup(func() {
		p.cmd.Process.Kill()
		f.Close()
		<-shown
	})
	return p
}

func (p *typist) key(keys string) {
	p.t.Helper()
	if _, err := io.WriteString(p.in, keys); err != nil {
		p.t.Fatal(err)
	}
}

// agentctl shell is a terminal in the sandbox.
func TestShellInASandbox(t *testing.T) {
	d := sandboxed(t)
	const prompt = "ready> "
	at := func(t *testing.T) *typist {
		p := d.types(t, 30, 90, "shell", "alice", "--", "sh", "-c", "PS1='"+prompt+"' exec sh -i")
		p.sees(prompt)
		return p
	}
	t.Run("size, keys and exit", func(t *testing.T) {
		p := at(t)
		p.key("tty >/dev/null && stty size; echo $TERM\r")
		p.sees("\n30 90\r\nxterm-color\r\n")
		if err := pty.Setsize(p.screen, &pty.Winsize{Rows: 40, Cols: 120}); err != nil {
			t.Fatal(err)
		}
		p.key("until stty size | grep '40 1'; do sleep 0.1; done\r")
		p.sees("\n40 120\r\n")
		p.key("echo sleeping''; sleep 1000\r")
		p.sees("\nsleeping\r\n")
		p.key("\x03")
		p.sees("^C")
		p.key("echo status=$?\r")
		p.sees("status=130\r\n")
		p.key("exit 5\r")
		equal(t, "exit", p.ends(), 5)
		has(t, "the session", d.lastSession(t), `"state":"stopped"`)
	})
	t.Run("Ctrl-D", func(t *testing.T) {
		p := at(t)
		p.key("cat\rone\r")
		p.sees("\none\r\none\r\n")
		p.key("\x04")
		p.sees("one\r\n" + prompt)
		p.key("false\r")
		p.key("\x04")
		equal(t, "exit", p.ends(), 1)
		has(t, "the session", d.lastSession(t), `"state":"stopped"`)
	})
	t.Run("of a session", func(t *testing.T) {
		r := d.as(t).root()
		n := r.ask("agents/alice/containers/new", `{"keep":true,"commands":["echo here > file"]}`)
		p := d.types(t, 24, 80, "shell", "alice", n, "--", "sh", "-c", "until [ -s file ]; do sleep 0.1; done; cat file; read x; echo got $x; exit 6")
		p.sees("here\r\n")
		p.key("it\r")
		p.sees("got it\r\n")
		equal(t, "exit", p.ends(), 6)
		has(t, "the session", r.read("agents/alice/containers/sessions/"+n+"/status"), `"state":"running"`)

		cmd := d.program(t, "shell", "alice", n, "--", "sh", "-s")
		cmd.Stdin = strings.NewReader("cat file\necho err >&2\nexit 8\n")
		var errs bytes.Buffer
		cmd.Stderr = &errs
		out, _ := cmd.Output()
		equal(t, "a script's exit", cmd.ProcessState.ExitCode(), 8)
		equal(t, "a script's output", string(out)+errs.String(), "here\nerr\n")
		r.write("agents/alice/containers/sessions/"+n+"/ctl", "stop")
		d.lastSession(t)
	})
	t.Run("the terminal hangs up", func(t *testing.T) {
		p := at(t)
		p.screen.Close() // the kernel sends SIGHUP
		equal(t, "exit", p.ends(), 130)
		has(t, "the session", d.lastSession(t), `"state":"stopped"`)
	})
	t.Run("the terminal hangs up, and SIGHUP is ignored", func(t *testing.T) {
		cmd := d.program(t, "shell", "alice", "--", "sh", "-c", "PS1='"+prompt+"' exec sh -i")
		cmd.Args = append([]string{"sh", "-c", `trap "" HUP; exec "$@"`, "sh", cmd.Path}, cmd.Args[1:]...) // as nohup has it
		cmd.Path = "/bin/sh"
		p := atTerminal(t, 30, 90, cmd)
		p.sees(prompt)
		p.screen.Close()
		equal(t, "exit", p.ends(), 130)
		has(t, "the session", d.lastSession(t), `"state":"stopped"`)
	})
}
