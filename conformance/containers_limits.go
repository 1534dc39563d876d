package conformance

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"agent9/fsys"
	"agent9/providers/sandboxes"
)

var limitRules = []sandboxRule{
	{"no network", noNetwork},
	{"memory", memoryLimit},
	{"processes", processLimit},
	{"disk", diskLimit},
	{"the machine is not seen", notSeen},
	{"the box is safe", boxIsSafe},
}

func noNetwork(t *testing.T, s *fixture) {
	if !s.enforces("network") {
		t.Skip("the provider does not keep the network away")
	}
	in := inBox{t, s, s.create(t, sandboxes.Spec{})}
	if out := in.must("cat /proc/net/dev | tail -n +3 | grep -v '^ *lo:' | cut -d: -f1"); strings.TrimSpace(out) != "" {
		t.Errorf("there are interfaces: %s", out)
	}
}

func memoryLimit(t *testing.T, s *fixture) {
	if !s.enforces("memory") {
		t.Skip("the provider does not limit memory")
	}
	in := inBox{t, s, s.create(t, sandboxes.Spec{Limits: sandboxes.Limits{Memory: 64 << 20}})}
	r, err := in.try(t.Context(), shell("head -c 500000000 /dev/zero | tail -c 400000000 >/dev/null"), sandboxes.Streams{})
	if err != nil {
		t.Fatalf("the box did not survive: %v", err)
	}
	if r.exit.Code == 0 || r.exit.Reason != sandboxes.ReasonOOM {
		t.Errorf("a command without memory ended with %+v, %s", r.exit, r.err)
	}
	if got := in.must("echo alive"); got != "alive\n" {
		t.Errorf("after that: %q", got)
	}
	if e := in.sh("exit 137").exit; e.Reason != "" {
		t.Errorf("a later command: %+v", e)
	}
	if e := in.sh("kill -9 $$").exit; e.Reason != "" {
		t.Errorf("a later command that was killed: %+v", e)
	}
}

// processLimit runs a fork bomb, and a shell that takes all processes there
// are and keeps them. The box survives both; meanwhile it serves files and says
// why it begins nothing, and after the timeout there is room again.
func processLimit(t *testing.T, s *fixture) {
	if !s.enforces("pids") {
		t.Skip("the provider does not limit processes")
	}
	for _, script := range []string{
		"b() { b | b & b; }; b; while :; do :; done",
		"(while :; do sleep 1000 & done) 2>/dev/null; echo full; while :; do :; done",
	} {
		in := inBox{t, s, s.create(t, sandboxes.Spec{Limits: sandboxes.Limits{PIDs: 128, Memory: 512 << 20}})}
		bomb := shell(script)
		bomb.Timeout = 3 * time.Second
		b, _ := in.start(bomb, sandboxes.Streams{})
		if strings.Contains(script, "full") {
			b.until(in, "full")
			in.whileFull()
		}
		b.wait(in)
		if b.err != nil {
			t.Fatalf("the box did not survive: %v", b.err)
		}
		t.Logf("the bomb ended with %+v", b.r.exit)
		in.roomAgain()
	}
}

// whileFull uses a sandbox that has room for one process more: that of the
// shell that has found that there is none.
func (in inBox) whileFull() {
	reader, writer := io.Pipe()
	defer writer.Close()
	last, _ := in.start(shell("echo in; read x"), sandboxes.Streams{Stdin: reader})
	last.until(in, "in")
	r, err := in.try(in.Context(), shell("echo"), sandboxes.Streams{})
	if code := fsys.CodeOf(err); err == nil || code != fsys.Busy || fsys.ReasonOf(err) == "" {
		in.Errorf("a command without room: %+v, %v, want %v and a reason", r.exit, err, fsys.Busy)
	}
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			if _, err := fsys.List(in.Context(), in.workspace()); err != nil {
				in.Errorf("files meanwhile, %d: %v", i, err)
			}
		})
	}
	all.Wait()
}

// roomAgain waits until commands can be run.
func (in inBox) roomAgain() {
	deadline := time.Now().Add(in.s.Bound)
	for {
		r, err := in.try(in.Context(), shell("for i in 1 2 3; do (echo $i); done"), sandboxes.Streams{})
		if err == nil && r.exit.Code == 0 && r.out == "1\n2\n3\n" {
			return
		}
		if time.Now().After(deadline) || !in.box.Running() {
			in.Fatalf("after the bomb: %+v, %q, %v", r.exit, r.all, err)
		}
	}
}

func diskLimit(t *testing.T, s *fixture) {
	if !s.enforces("disk") {
		t.Skip("the provider does not limit the disk")
	}
	in := inBox{t, s, s.create(t, sandboxes.Spec{Limits: sandboxes.Limits{Disk: 16 << 20}})}
	r := in.sh("head -c 64000000 /dev/zero >big; echo $?; rm -f big; echo room >small; cat small")
	if !strings.HasSuffix(r.out, "room\n") || strings.HasPrefix(r.out, "0\n") {
		t.Errorf("four times the limit was written: %q, %q", r.out, r.err)
	}
}

func notSeen(t *testing.T, s *fixture) {
	if !s.info.Isolated {
		t.Skip("the provider does not isolate")
	}
	in := inBox{t, s, s.create(t, sandboxes.Spec{})}
	for _, script := range []string{
		"test ! -e /root/.profile", "test ! -w /usr", "test ! -w /etc", "! touch /usr/x 2>/dev/null", "! kill -0 1 2>/dev/null || test $(id -u) != 0",
		"test -w /tmp && test -w /workspace", "! mount -t tmpfs x /mnt 2>/dev/null",
	} {
		if r := in.sh(script); r.exit.Code != 0 {
			t.Errorf("%s: %+v %s", script, r.exit, r.all)
		}
	}
}

// boxIsSafe checks that the programs in an isolated sandbox, which run as the
// user of the box, can neither end nor read it.
func boxIsSafe(t *testing.T, s *fixture) {
	if !s.info.Isolated {
		t.Skip("the provider does not isolate")
	}
	in := inBox{t, s, s.create(t, sandboxes.Spec{})}
	for _, sig := range []string{"TERM", "INT", "HUP", "QUIT", "USR1", "PIPE", "SEGV", "ABRT", "WINCH", "STOP", "KILL"} {
		in.sh(fmt.Sprintf("kill -%s 1", sig))
	}
	for _, file := range []string{"/proc/1/mem", "/proc/1/environ", "/proc/1/fd/3"} {
		if r := in.sh("head -c 1 $1", file); r.exit.Code == 0 && r.out != "" {
			t.Errorf("%s can be read", file)
		}
	}
	if got := in.must("echo alive"); got != "alive\n" {
		t.Errorf("after that: %q", got)
	}
}
