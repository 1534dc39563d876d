//go:build unix

package containers_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"agent9/fsys"
	"agent9/providers/sandboxes/fake"
	"agent9/services/containers"
)

// kept is a session that waits for work.
func (y *yard) kept(more ...string) string {
	y.Helper()
	n := y.ask("{" + strings.Join(append([]string{`"keep":true,"commands":["echo up"]`}, more...), ",") + "}")
	y.follow("sessions/"+n+"/output", "up")
	return "sessions/" + n
}

// exec runs a command in the session at dir and returns the exec's directory.
func (y *yard) exec(dir, req string) string {
	y.Helper()
	return dir + "/exec/" + y.converse(dir+"/exec/new", req)
}

type outcome struct {
	ExitCode int `json:"exit_code"`
	Reason   string
	Signal   string
	Lost     int64 `json:"lost_bytes"`
	Error    struct{ Code, Reason string }
}

func (y *yard) outcome(dir string) (o outcome) {
	y.Helper()
	y.must(json.Unmarshal([]byte(y.read(dir+"/result")), &o))
	return o
}

func TestExec(t *testing.T) {
	y := newYard(t, fake.Options{})
	dir := y.kept()
	x := y.exec(dir, "echo out; echo err >&2; exit 7")
	y.eq(y.outcome(x).ExitCode, 7)
	y.eq(y.read(x+"/stdout")+y.read(x+"/stderr"), "out\nerr\n")
	x = y.exec(dir, `{"argv":["sh","-c","echo $V; pwd; cat"],"env":{"V":"v"},"workdir":"/tmp","stdin":"typed"}`)
	y.eq(y.read(x+"/stdout"), "v\n/tmp\ntyped")
	x = y.exec(dir, `{"command":"cat","stdin":false}`)
	y.eq(y.read(x+"/output"), "")
	x = y.exec(dir, `{"command":"sleep 60","time_s":1}`)
	y.eq(y.outcome(x).ExitCode, 124)
	y.eq(y.outcome(x).Reason, "timeout")
	y.refused(dir+"/exec/new", `{"command":"x","argv":["x"]}`, fsys.Invalid, "give command")
	y.refused(dir+"/exec/new", `{"command":"x","time_s":301}`, fsys.Invalid, "up to that of the session")
	y.must(y.write(dir+"/ctl", "stop"))
	y.ended(strings.TrimPrefix(dir, "sessions/"), containers.Stopped, "")
	y.refused(dir+"/exec/new", "x", fsys.Busy, "has ended: stopped")
	y.eq(y.read(x+"/stdout"), "")
}

func TestStdinIsAFile(t *testing.T) {
	y := newYard(t, fake.Options{})
	dir := y.kept()
	x := y.exec(dir, "cat; echo end")
	script := strings.Repeat("a line of a script\n", 20_000)
	y.must(y.write(x+"/stdin", script))
	if got := y.read(x + "/stdout"); got != script+"end\n" {
		t.Errorf("got %d bytes", len(got))
	}
	if err := y.write(x+"/stdin", "more"); fsys.CodeOf(err) != fsys.Busy {
		t.Errorf("a write after the end: %v", err)
	}
	shown, err := safe(y, x)
	y.must(err)
	for _, e := range shown {
		if e.Name == "stdin" {
			t.Error("a mount lists what nobody can read")
		}
	}
	// A hang-up is not an end: another writer goes on.
	x = y.exec(dir, "cat")
	h, err := fsys.OpenPath(y.ctx, y.svc.Root(), x+"/stdin", fsys.Write)
	y.must(err)
	_, err = fsys.WriteAt(y.ctx, h, []byte("half "), 0)
	y.must(err)
	y.must(h.Close())
	y.must(y.write(x+"/stdin", "whole"))
	y.eq(y.read(x+"/stdout"), "half whole")
	x = y.exec(dir, "cat")
	y.must(y.write(x+"/ctl", "close"))
	y.eq(y.outcome(x).ExitCode, 0)
}

func TestSignals(t *testing.T) {
	y := newYard(t, fake.Options{})
	dir := y.kept()
	x := y.exec(dir, "trap 'echo got it; exit 5' USR1; echo ready; while :; do sleep 0.1; done")
	y.follow(x+"/stdout", "ready")
	y.must(y.write(x+"/ctl", "kill SIGUSR1"))
	y.eq(y.outcome(x).ExitCode, 5)
	x = y.exec(dir, "echo ready; sleep 1000")
	y.follow(x+"/stdout", "ready")
	for _, bad := range []string{"kill NOSIG", "resize 1 1", "resize", "sing"} {
		if y.write(x+"/ctl", bad) == nil {
			t.Errorf("%s was taken", bad)
		}
	}
	y.must(y.write(x+"/ctl", "kill"))
	y.eq(y.outcome(x).Signal, "SIGKILL")
	x = y.exec(dir, "trap '' TERM; echo ready; while :; do sleep 0.1; done")
	y.follow(x+"/stdout", "ready")
	y.must(y.write(x+"/ctl", "cancel"))
	y.outcome(x)
	if s := y.read(x + "/status"); !strings.Contains(s, `"state":"stopped"`) {
		t.Error(s)
	}
}

func TestTerminal(t *testing.T) {
	y := newYard(t, fake.Options{})
	dir := y.kept()
	x := y.exec(dir, `{"command":"stty size; read a; echo got $a; read b; stty size","tty":{"rows":10,"cols":20}}`)
	y.follow(x+"/output", "10 20")
	y.must(y.write(x+"/stdin", "one\n"))
	y.follow(x+"/output", "got one")
	y.must(y.write(x+"/ctl", "resize 30 40"))
	y.must(y.write(x+"/stdin", "two\n"))
	y.follow(x+"/output", "30 40")
	y.eq(y.outcome(x).ExitCode, 0)
	x = y.exec(dir, `{"command":"trap 'echo interrupted; exit 4' INT; echo ready; while :; do sleep 0.1; done","tty":true}`)
	y.follow(x+"/output", "ready")
	y.must(y.write(x+"/stdin", "\x03"))
	y.follow(x+"/output", "interrupted")
	y.eq(y.outcome(x).ExitCode, 4)
}

func TestExecsEndWithTheirSession(t *testing.T) {
	y := newYard(t, fake.Options{})
	dir := y.kept()
	x := y.exec(dir, "echo ready; sleep 1000")
	y.follow(x+"/stdout", "ready")
	y.must(y.write(dir+"/ctl", "kill"))
	if o := y.outcome(x); o.ExitCode == 0 {
		t.Errorf("%+v", o)
	}
	y.ended(strings.TrimPrefix(dir, "sessions/"), containers.Stopped, "")
	if s := y.read(x + "/status"); !strings.Contains(s, `"state":"stopped"`) {
		t.Error(s)
	}
}

func TestAnExecWaitsForTheSandbox(t *testing.T) {
	go1 := make(chan struct{})
	y := newYard(t, fake.Options{Creating: waitFor(go1)})
	n := y.ask(`{"keep":true}`)
	x := y.exec("sessions/"+n, "echo ran")
	if s := y.read(x + "/status"); !strings.Contains(s, `"state":"waiting"`) {
		t.Error(s)
	}
	close(go1)
	y.eq(y.read(x+"/stdout"), "ran\n")
}

func TestManyReadersAndExecs(t *testing.T) {
	y := newYard(t, fake.Options{})
	dir := y.kept()
	const n = 16
	var all []string
	for range n {
		all = append(all, y.exec(dir, "for i in 1 2 3 4 5 6 7 8 9; do echo $i; done; sleep 0.2; echo end"))
	}
	got := make(chan string)
	for _, x := range all {
		for range 3 {
			go func() {
				b, _ := fsys.ReadFile(context.WithoutCancel(y.ctx), y.svc.Root(), x+"/stdout")
				got <- string(b)
			}()
		}
	}
	for range 3 * n {
		y.eq(<-got, "1\n2\n3\n4\n5\n6\n7\n8\n9\nend\n")
	}
}

func TestOutputIsBounded(t *testing.T) {
	y := newYard(t, fake.Options{})
	y.policy(`{"output_bytes":100000}`)
	dir := y.kept()
	x := y.exec(dir, "head -c 1000000 /dev/zero; head -c 500 /dev/zero >&2; echo -n")
	out, errs := y.read(x+"/stdout"), y.read(x+"/stderr")
	if !strings.HasSuffix(out, "\n[lost 900000 bytes of stdout: the limit of the output is 100000 bytes]\n") || len(out) < 100_000 || len(out) > 100_100 {
		t.Errorf("%d bytes end in %q", len(out), out[max(len(out)-100, 0):])
	}
	y.eq(errs, "\n[lost 500 bytes of stderr: the limit of the output is 100000 bytes]\n")
	y.eq(y.outcome(x).Lost, 900_500)
}

func TestStreamsAlone(t *testing.T) {
	y := newYard(t, fake.Options{})
	dir := y.kept()
	x := y.exec(dir, "i=0; while [ $i -lt 300 ]; do echo o$i; echo e$i >&2; i=$((i+1)); done")
	var out, errs strings.Builder
	for i := range 300 {
		out.WriteString("o" + itoa(i) + "\n")
		errs.WriteString("e" + itoa(i) + "\n")
	}
	y.eq(y.read(x+"/stdout"), out.String())
	y.eq(y.read(x+"/stderr"), errs.String())
	y.eq(len(y.read(x+"/output")), out.Len()+errs.Len())
	h, err := fsys.OpenPath(y.ctx, y.svc.Root(), x+"/stderr", fsys.Read)
	y.must(err)
	defer h.Close()
	for off := range errs.Len() {
		var p [3]byte
		n, err := fsys.ReadAt(y.ctx, h, p[:], int64(off))
		if err != nil || n == 0 || !strings.HasPrefix(errs.String()[off:], string(p[:n])) {
			t.Fatalf("at %d: %q, %v", off, p[:n], err)
		}
	}
}

// safe is what a mount lists of a directory.
func safe(y *yard, dir string) ([]fsys.Entry, error) {
	n, err := fsys.WalkPath(y.ctx, y.svc.Root(), dir)
	y.must(err)
	return fsys.ListSafe(y.ctx, n)
}
