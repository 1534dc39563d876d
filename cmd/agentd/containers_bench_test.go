//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"agent9/conformance/engine"
	"agent9/fsys"
	"agent9/fsys/ninep"
	"agent9/namespace/budget"
)

// A yardstick is a daemon in this process with an engine, and an image.
type yardstick struct {
	b     *testing.B
	e     *engine.Engine
	image string
	root  fsys.Node // of an agent's containers
}

// BenchmarkContainers compares sessions with what docker's own command-line
// client does, with the same engine and image, by turns.
func BenchmarkContainers(b *testing.B) {
	y := newYardstick(b)
	b.Run("first-byte", y.firstByte)
	b.Run("exec", y.exec)
	b.Run("read-1GiB", y.reads)
	b.Run("fifty", y.fifty)
}

func newYardstick(b *testing.B) *yardstick {
	if _, err := exec.LookPath("docker"); err != nil {
		b.Skip(err)
	}
	e := engine.Start(b)
	y := &yardstick{b: b, e: e, image: e.Busybox(b)}
	dir := b.TempDir()
	helper := filepath.Join(dir, "a9")
	build := exec.Command("go", "build", "-o", helper, "agent9/cmd/a9")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOARCH="+runtime.GOARCH)
	y.must(build.Run())
	b.Setenv("AGENT9_HELPER", helper)
	short, err := os.MkdirTemp("", "a9b")
	y.must(err)
	b.Cleanup(func() { os.RemoveAll(short) })
	ctx, cancel := context.WithCancel(context.WithoutCancel(b.Context()))
	listening, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- serve(ctx, settings{
			data: dir + "/data", listen: []string{"unix:" + short + "/s"}, compute: []string{"e=echo:"}, containers: []string{"docker=docker:" + e.Host},
			limits: budget.Limits{}, messages: io.Discard, getenv: os.Getenv, listening: func(at string) { listening <- at },
		})
	}()
	b.Cleanup(func() { cancel(); <-ended })
	select {
	case <-listening:
	case err := <-ended:
		b.Fatal(err)
	}
	c, err := ninep.Dial(b.Context(), "unix", short+"/s")
	y.must(err)
	b.Cleanup(func() { c.Close() })
	root, err := c.Attach(b.Context(), "", "")
	y.must(err)
	_, err = fsys.Mkdir(b.Context(), must1(fsys.WalkPath(b.Context(), root, "agents")), "alice", 0o755)
	y.must(err)
	y.root = must1(fsys.WalkPath(b.Context(), root, "agents/alice/containers"))
	y.must(fsys.WriteFile(b.Context(), y.root, "policy", []byte(`{"max_concurrent":50,"limits":{"disk_mb":4096}}`)))
	return y
}

func must1[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func (y *yardstick) must(err error) {
	y.b.Helper()
	if err != nil {
		y.b.Fatal(err)
	}
}

func (y *yardstick) ask(path, req string) string {
	y.b.Helper()
	reply, err := fsys.Converse(y.b.Context(), y.root, path, []byte(req))
	y.must(err)
	return strings.TrimSpace(string(reply))
}

// docker runs the client, and returns how long it took until the first byte
// and until the end.
func (y *yardstick) docker(args ...string) (first, whole time.Duration) {
	y.b.Helper()
	cmd := exec.Command("docker", append([]string{"-H", y.e.Host}, args...)...)
	out, err := cmd.StdoutPipe()
	y.must(err)
	var says bytes.Buffer
	cmd.Stderr = &says
	begun := time.Now()
	y.must(cmd.Start())
	io.ReadFull(out, make([]byte, 1))
	first = time.Since(begun)
	io.Copy(io.Discard, out)
	if err := cmd.Wait(); err != nil {
		y.b.Fatal(err, says.String())
	}
	return first, time.Since(begun)
}

func report(b *testing.B, name string, took []time.Duration) {
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, name+"-ms")
}

func (y *yardstick) firstByte(b *testing.B) {
	var answered, ours, theirs []time.Duration
	for b.Loop() {
		first, _ := y.docker("run", "--rm", "--network", "none", "--read-only", "--user", "65534", y.image, "echo", "hi")
		theirs = append(theirs, first)
		begun := time.Now()
		n := y.ask("new", fmt.Sprintf(`{"image":%q,"commands":[{"argv":["echo","hi"]}]}`, y.image))
		answered = append(answered, time.Since(begun))
		h, err := fsys.OpenPath(b.Context(), y.root, "sessions/"+n+"/stdout", fsys.Read)
		y.must(err)
		_, err = fsys.ReadAt(b.Context(), h, make([]byte, 1), 0)
		y.must(err)
		ours = append(ours, time.Since(begun))
		h.Close()
		must1(fsys.ReadFile(b.Context(), y.root, "sessions/"+n+"/result"))
	}
	report(b, "docker-run", theirs)
	report(b, "new", answered)
	report(b, "session", ours)
}

// kept is a session that waits for work.
func (y *yardstick) kept() string {
	n := y.ask("new", fmt.Sprintf(`{"image":%q,"keep":true}`, y.image))
	x := y.ask("sessions/"+n+"/exec/new", "true")
	must1(fsys.ReadFile(y.b.Context(), y.root, "sessions/"+n+"/exec/"+x+"/result"))
	return "sessions/" + n
}

func (y *yardstick) exec(b *testing.B) {
	dir := y.kept()
	out, err := exec.Command("docker", "-H", y.e.Host, "run", "-d", "--network", "none", y.image, "sleep", "1000").Output()
	y.must(err)
	id := strings.TrimSpace(string(out))
	defer y.docker("rm", "-f", id)
	var ours, theirs []time.Duration
	for b.Loop() {
		_, whole := y.docker("exec", id, "true")
		theirs = append(theirs, whole)
		begun := time.Now()
		x := y.ask(dir+"/exec/new", `{"argv":["true"],"stdin":false}`)
		must1(fsys.ReadFile(b.Context(), y.root, dir+"/exec/"+x+"/result"))
		ours = append(ours, time.Since(begun))
	}
	report(b, "docker-exec", theirs)
	report(b, "exec", ours)
	y.must(fsys.WriteFile(b.Context(), y.root, dir+"/ctl", []byte("kill")))
}

func (y *yardstick) reads(b *testing.B) {
	dir := y.kept()
	x := y.ask(dir+"/exec/new", "dd if=/dev/zero of=big bs=1M count=1024")
	must1(fsys.ReadFile(b.Context(), y.root, dir+"/exec/"+x+"/result"))
	out, err := exec.Command("docker", "-H", y.e.Host, "ps", "-lq").Output()
	y.must(err)
	id := strings.TrimSpace(string(out))
	var ours, theirs []time.Duration
	for b.Loop() {
		_, whole := y.docker("cp", id+":/workspace/big", "-")
		theirs = append(theirs, whole)
		begun := time.Now()
		h, err := fsys.OpenPath(b.Context(), y.root, dir+"/files/workspace/big", fsys.Read)
		y.must(err)
		buf := make([]byte, 1<<20)
		for off := int64(0); off < 1<<30; {
			n, err := fsys.ReadAt(b.Context(), h, buf, off)
			if off += int64(n); n == 0 {
				b.Fatal(off, err)
			}
		}
		ours = append(ours, time.Since(begun))
		h.Close()
	}
	report(b, "docker-cp", theirs)
	report(b, "files", ours)
	y.must(fsys.WriteFile(b.Context(), y.root, dir+"/ctl", []byte("kill")))
}

// fifty runs so many sessions at once, and says what one costs the daemon, and
// this client, in memory.
func (y *yardstick) fifty(b *testing.B) {
	for b.Loop() {
		before := heap()
		begun := time.Now()
		dirs := make([]string, 50)
		var all sync.WaitGroup
		for i := range dirs {
			all.Go(func() { dirs[i] = y.kept() })
		}
		all.Wait()
		b.ReportMetric(time.Since(begun).Seconds(), "s-until-all-run")
		b.ReportMetric(float64(heap()-before)/50/1024, "KiB/session")
		for _, dir := range dirs {
			all.Go(func() {
				y.must(fsys.WriteFile(b.Context(), y.root, dir+"/ctl", []byte("kill")))
				must1(fsys.ReadFile(b.Context(), y.root, dir+"/result"))
			})
		}
		all.Wait()
		b.ReportMetric(time.Since(begun).Seconds(), "s-in-all")
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
