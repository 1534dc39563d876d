//go:build linux

package conformance

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"agent9/fsys"
)

// A waiter is a file whose reads and writes wait until they are cancelled.
type waiter struct {
	entered, closed chan struct{}
	left            chan error // why one no longer waits
}

func newWaiter() *waiter {
	return &waiter{make(chan struct{}, 1000), make(chan struct{}, 1000), make(chan error, 1000)}
}

func (w *waiter) wait(ctx context.Context) error {
	if ctx.Err() != nil { // who asks only for what is there now
		return context.Canceled
	}
	w.entered <- struct{}{}
	<-ctx.Done()
	w.left <- context.Cause(ctx)
	return context.Cause(ctx)
}

func (w *waiter) Stat(context.Context) (fsys.Info, error) {
	return fsys.Info{Kind: fsys.Stream, Perm: 0o666}, nil
}

func (w *waiter) Open(context.Context, fsys.Flag) (fsys.Handle, error) { return waiting{w}, nil }

type waiting struct{ w *waiter }

func (h waiting) Close() error {
	h.w.closed <- struct{}{}
	return nil
}

func (h waiting) ReadAt(ctx context.Context, _ []byte, _ int64) (int, error) { return 0, h.w.wait(ctx) }

func (h waiting) WriteAt(ctx context.Context, _ []byte, _ int64) (int, error) {
	return 0, h.w.wait(ctx)
}

func (w *waiter) wantCancelled(t *testing.T) {
	t.Helper()
	if err := receive(t, w.left, "the end of the call"); fsys.CodeOf(err) != fsys.Canceled {
		t.Errorf("the call ended with %v, want it cancelled", err)
	}
	receive(t, w.closed, "Close")
}

// exportInterrupts checks that a program which waits can be ended, and that
// nothing of what it did stays behind.
func exportInterrupts(t *testing.T, show func(*testing.T, fsys.Node) string) {
	w := newWaiter()
	dir := show(t, fsys.NewTable(fsys.Entry{Name: "w", Node: w}))
	for _, c := range []struct {
		program string
		signal  syscall.Signal
	}{
		{"cat w", syscall.SIGINT},
		{"cat w", syscall.SIGTERM},
		{"cat w", syscall.SIGKILL},
		{"dd if=/dev/zero of=w bs=1 count=1 status=none", syscall.SIGINT},
		{"dd if=/dev/zero of=w bs=1 count=1 status=none", syscall.SIGKILL},
	} {
		t.Run(fmt.Sprint(c.program[:2], c.signal), func(t *testing.T) {
			cmd, _ := startBash(t, dir, "exec "+c.program)
			receive(t, w.entered, "the call")
			began := time.Now()
			cmd.Process.Signal(c.signal)
			if waitBash(cmd) == nil {
				t.Error("the program ended as if nothing had happened")
			}
			took := time.Since(began)
			t.Logf("gone after %v", took)
			if took > 10*time.Second {
				t.Errorf("gone only after %v", took)
			}
			w.wantCancelled(t)
		})
	}
}

// exportBlockedReaders checks that many who wait delay nobody else.
func exportBlockedReaders(t *testing.T, show func(*testing.T, fsys.Node) string) {
	const readers = 200
	w := newWaiter()
	dir := show(t, fsys.NewTable(
		fsys.Entry{Name: "README", Node: fsys.Const("hello\n")},
		fsys.Entry{Name: "goals", Node: exportStored(t)},
		fsys.Entry{Name: "new", Node: exportEcho()},
		fsys.Entry{Name: "w", Node: w},
	))
	cats, _ := startBash(t, dir, fmt.Sprintf("for ((i=0; i<%d; i++)); do cat w & done; wait", readers))
	for range readers {
		receive(t, w.entered, "a reader")
	}
	got := bash(t, dir, `cat README; ls; echo '{"a":1}' >new; mkdir goals/d; echo 1 >goals/d/f; mv goals/d/f goals/d/g
		cat goals/d/g; rm -r goals/d; stat -c %s w`)
	if want := "hello\nREADME\ngoals\nnew\n1\n0\n"; got != want {
		t.Errorf("among %d blocked readers:\n got %q\nwant %q", readers, got, want)
	}
	killGroup(cats)
	cats.Wait()
	for range readers {
		w.wantCancelled(t)
	}
}

// exportSlowRequests checks that a request which takes long delays no other
// user of the same file, and can be given up.
func exportSlowRequests(t *testing.T, show func(*testing.T, fsys.Node) string) {
	const many = 20
	w, done := newWaiter(), make(chan struct{})
	dir := show(t, fsys.NewTable(fsys.Entry{Name: "new", Node: &fsys.Call{Do: func(ctx context.Context, req []byte) ([]byte, error) {
		switch {
		case bytes.Contains(req, []byte("slow")):
			w.entered <- struct{}{}
			select {
			case <-done:
			case <-ctx.Done():
			}
		case bytes.Contains(req, []byte("for ever")):
			return nil, w.wait(ctx)
		}
		return fmt.Appendf(nil, "got %s\n", req), nil
	}}}))
	all, out := startBash(t, dir, fmt.Sprintf(`for ((i=0; i<%d; i++)); do (exec 3<>new; echo '{"slow":1}' >&3; cat <&3) & done; wait`, many))
	for range many {
		receive(t, w.entered, "all the requests at once")
	}
	got := bash(t, dir, `exec 3<>new; echo '{"a":1}' >&3; cat <&3; exec 3>&-; echo text >new; : >new; stat -c %s new`)
	if want := "got {\"a\":1}\n0\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, request := range []string{`{"for ever":1}`, "for ever"} { // in write(2), and in close(2)
		cmd, _ := startBash(t, dir, `echo '`+request+`' >$TMP/request; exec cp $TMP/request new`)
		receive(t, w.entered, "the request")
		cmd.Process.Signal(syscall.SIGINT)
		if waitBash(cmd) == nil {
			t.Errorf("%s was given up, and cp does not say so", request)
		}
		if err := receive(t, w.left, "the end of the request"); fsys.CodeOf(err) != fsys.Canceled {
			t.Errorf("%s ended with %v, want it cancelled", request, err)
		}
	}
	close(done)
	if err := waitBash(all); err != nil || out.Len() != many*len("got {\"slow\":1}\n") {
		t.Errorf("%v: %s", err, out)
	}
}

// exportStreams checks that what comes to a stream is read as it comes.
func exportStreams(t *testing.T, show func(*testing.T, fsys.Node) string) {
	for _, script := range []string{"cat log", "tail -n1 -f log", "tail -n1 -F log", "dd if=log bs=1M status=none", "while read -r l; do echo $l; done <log"} {
		t.Run(script, func(t *testing.T) {
			var m fsys.Memory
			tape := fsys.NewTape(&m)
			m.Append([]byte("0\n"))
			dir := show(t, fsys.NewTable(fsys.Entry{Name: "log", Node: tape}))
			cmd := exec.Command("bash", "-c", `cd "$0"; `+script, dir)
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			out, err := cmd.StdoutPipe()
			must(t, err)
			must(t, cmd.Start())
			defer cmd.Wait()
			defer killGroup(cmd)
			late := time.AfterFunc(exportPatience, func() { killGroup(cmd) })
			defer late.Stop()
			for i := range 3 {
				line := make([]byte, 2)
				if _, err := io.ReadFull(out, line); err != nil || string(line) != fmt.Sprintln(i) {
					t.Fatalf("got %q, %v, want %d", line, err, i)
				}
				m.Append(fmt.Appendln(nil, i+1))
				tape.Grown()
			}
		})
	}
}
