package conformance

import (
	"context"
	"errors"
	"time"

	"agent9/fsys"
	"agent9/providers/sandboxes"
)

var killRules = []boxRule{
	{"timeout", inBox.timeout},
	{"timeout that is not heeded", inBox.stubborn},
	{"cancel", inBox.cancel},
	{"cancel of a tree", inBox.cancelTree},
	{"signal", inBox.signal},
}

func (in inBox) timeout() {
	cmd := shell("trap 'echo told; exit 5' TERM; echo ready; while :; do sleep 0.1; done")
	cmd.Timeout = time.Second
	r := in.exec(cmd, sandboxes.Streams{})
	if r.exit.Code != 124 || r.exit.Reason != sandboxes.ReasonTimeout || r.out != "ready\ntold\n" {
		in.Errorf("it ended with %+v and wrote %q", r.exit, r.all)
	}
	cmd = shell("echo fast; exit 3")
	cmd.Timeout = in.s.Bound
	if r := in.exec(cmd, sandboxes.Streams{}); r.exit.Code != 3 || r.exit.Reason != "" {
		in.Errorf("a command within its time ended with %+v", r.exit)
	}
}

// stubborn checks that after a timeout nothing of the command is left, also
// what has made itself independent of it.
func (in inBox) stubborn() {
	cmd := shell(`trap '' TERM; setsid sh -c 'echo $$ >deep; while :; do sleep 0.2; done' >/dev/null 2>&1 & while :; do sleep 0.2; done`)
	cmd.Timeout = time.Second
	begun := time.Now()
	r := in.exec(cmd, sandboxes.Streams{})
	if r.exit.Code != 124 || r.exit.Reason != sandboxes.ReasonTimeout {
		in.Errorf("it ended with %+v", r.exit)
	}
	if took := time.Since(begun); took < 2*time.Second {
		in.Errorf("it was killed after %v, without time to end", took)
	}
	in.gone("deep")
}

// gone checks that the process whose number is in the file does not run.
func (in inBox) gone(file string) {
	in.Helper()
	in.must(`pid=$(cat $1) && test -n "$pid" || exit 1; i=0; while kill -0 $pid 2>/dev/null; do i=$((i+1)); test $i -lt 50 || exit 2; sleep 0.1; done; rm $1`, file)
}

func (in inBox) cancel() {
	b, cancel := in.start(shell("echo ready; sleep 1000"), sandboxes.Streams{})
	b.until(in, "ready")
	begun := time.Now()
	cancel()
	b.wait(in)
	if !errors.Is(b.err, context.Canceled) || time.Since(begun) > 5*time.Second {
		in.Errorf("after %v: %v", time.Since(begun), b.err)
	}
}

func (in inBox) cancelTree() {
	b, cancel := in.start(shell(`setsid sh -c 'echo $$ >child; exec sleep 1000' & (sleep 1000 & echo $! >grandchild; wait) & until test -s child && test -s grandchild; do sleep 0.05; done; echo ready; sleep 1000`), sandboxes.Streams{})
	b.until(in, "ready")
	cancel()
	b.wait(in)
	in.gone("child")
	in.gone("grandchild")
}

func (in inBox) signal() {
	signals := make(chan sandboxes.Control)
	b, _ := in.start(shell("trap 'echo caught' USR1; trap 'exit 9' INT; echo ready; while :; do sleep 0.05; done"), sandboxes.Streams{Control: signals})
	b.until(in, "ready")
	done := make(chan error, 1)
	signals <- sandboxes.Control{Signal: "NOSUCH", Done: done}
	if err := <-done; fsys.CodeOf(err) != fsys.Invalid {
		in.Errorf("a signal that there is not: %v", err)
	}
	signals <- sandboxes.Control{Signal: "USR1", Done: done}
	if err := <-done; err != nil {
		in.Error(err)
	}
	b.until(in, "caught")
	signals <- sandboxes.Control{Signal: "SIGINT"}
	b.wait(in)
	if b.err != nil || b.r.exit.Code != 9 {
		in.Errorf("it ended with %+v, %v", b.r.exit, b.err)
	}
	b, _ = in.start(shell("trap '' TERM INT; echo ready; while :; do sleep 0.05; done"), sandboxes.Streams{Control: signals})
	b.until(in, "ready")
	signals <- sandboxes.Control{Signal: "KILL"}
	b.wait(in)
	if b.err != nil || b.r.exit.Code != 137 || b.r.exit.Reason != sandboxes.ReasonKilled {
		in.Errorf("after KILL it ended with %+v, %v", b.r.exit, b.err)
	}
}
