//go:build unix

package containers_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"agent9/fsys"
	"agent9/providers/sandboxes"
	"agent9/providers/sandboxes/fake"
	"agent9/services/containers"
)

func itoa(i int) string { return strconv.Itoa(i) }

// waitFor is a fake's Creating that waits until go1 is closed.
func waitFor(go1 <-chan struct{}) func(context.Context, sandboxes.Spec) error {
	return func(ctx context.Context, _ sandboxes.Spec) error {
		select {
		case <-go1:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func TestNewAnswersAtOnceAndStopEndsProvisioning(t *testing.T) {
	y := newYard(t, fake.Options{Creating: waitFor(nil)})
	n := y.ask("echo never")
	y.follow("sessions/"+n+"/output", "making the sandbox")
	y.eq(y.status(n).State, containers.Provisioning)
	if _, err := fsys.ReadFile(y.ctx, y.svc.Root(), "sessions/"+n+"/files/x"); fsys.CodeOf(err) != fsys.Busy {
		t.Errorf("files before there is a sandbox: %v", err)
	}
	y.must(y.write("sessions/"+n+"/ctl", "stop"))
	y.ended(n, containers.Stopped, "")
	y.must(y.fake.Empty())
}

func TestProviderFails(t *testing.T) {
	y := newYard(t, fake.Options{Creating: func(context.Context, sandboxes.Spec) error {
		return fsys.E(fsys.NoSpace, "the engine's disk is full")
	}})
	n := y.ask("x")
	y.ended(n, containers.Failed, "no-space: the engine's disk is full")
	if _, err := fsys.ReadFile(y.ctx, y.svc.Root(), "sessions/"+n+"/files/x"); fsys.CodeOf(err) != fsys.NotExist {
		t.Errorf("files of a session that had no sandbox: %v", err)
	}
	y.must(y.fake.Empty())
}

func TestEngineCrashes(t *testing.T) {
	y := newYard(t, fake.Options{})
	dir := y.kept()
	y.fake.Crash()
	n := strings.TrimPrefix(dir, "sessions/")
	y.ended(n, containers.Failed, "the sandbox ended")
	n = y.ask("echo ready; sleep 1000")
	y.follow("sessions/"+n+"/output", "ready")
	y.fake.Crash()
	y.ended(n, containers.Failed, "")
}

func TestQueue(t *testing.T) {
	go1 := make(chan struct{})
	y := newYard(t, fake.Options{Creating: waitFor(go1)})
	y.policy(`{"max_concurrent":1,"max_queued":2}`)
	first, second, third := y.ask("echo 1"), y.ask("echo 2"), y.ask("echo 3")
	y.eq(y.status(second).State, containers.Queued)
	y.refused("new", "echo 4", fsys.Busy, "too many sessions")
	y.must(y.write("sessions/"+third+"/ctl", "stop"))
	y.ended(third, containers.Stopped, "")
	close(go1)
	y.ended(first, containers.Done, "")
	y.ended(second, containers.Done, "")
	y.eq(y.svc.Unfinished(), 0)
}

func TestStopLetsCommandsEnd(t *testing.T) {
	y := newYard(t, fake.Options{})
	n := y.ask(`{"commands":["trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.1; done","echo no"]}`)
	y.follow("sessions/"+n+"/output", "ready")
	y.must(y.write("sessions/"+n+"/ctl", "stop"))
	y.ended(n, containers.Stopped, "")
	y.eq(y.read("sessions/"+n+"/stdout"), "ready\nbye\n")
	y.policy(`{"stop_grace_s":1}`)
	for _, script := range []string{"trap '' TERM; ", "", "trap 'exit 0' TERM; ", "trap 'exit 3' TERM; "} {
		n = y.ask(script + "echo ready; while :; do sleep 0.1; done")
		y.follow("sessions/"+n+"/output", "ready")
		y.must(y.write("sessions/"+n+"/ctl", "stop"))
		y.ended(n, containers.Stopped, "canceled: stopped")
	}
}

func TestIdle(t *testing.T) {
	y := newYard(t, fake.Options{})
	dir := y.kept()
	n := strings.TrimPrefix(dir, "sessions/")
	y.time.Add(int64(850 * time.Second))
	x := y.exec(dir, "echo use") // resets it
	y.outcome(x)
	y.time.Add(int64(850 * time.Second))
	y.read(dir + "/files/workspace/env.json") // and so does this
	y.eq(y.status(n).State, containers.Running)
	y.policy(`{"idle_s":2,"idle_warning_s":1}`)
	m := y.kept()
	y.hear("containers.idle")
	y.ended(strings.TrimPrefix(m, "sessions/"), containers.Expired, "idle: nobody used the session")
	y.eq(y.status(n).State, containers.Running)
	y.must(y.write(dir+"/ctl", "stop"))
}

func TestKeepAndExtend(t *testing.T) {
	y := newYard(t, fake.Options{})
	y.policy(`{"idle_s":1,"idle_warning_s":0,"max_life_s":3600}`)
	n := y.ask("echo ready; while [ ! -e go ]; do sleep 0.05; done")
	dir := "sessions/" + n
	y.follow(dir+"/output", "ready")
	y.must(y.write(dir+"/ctl", "keep"))
	y.outcome(y.exec(dir, "touch go"))
	y.ended(n, containers.Expired, "idle")
	y.policy(`{"max_life_s":3600}`)
	dir = y.kept()
	n = strings.TrimPrefix(dir, "sessions/")
	if err := y.write(dir+"/ctl", "extend 4000"); fsys.CodeOf(err) != fsys.Invalid {
		t.Error(err)
	}
	y.must(y.write(dir+"/ctl", "extend 1200"))
	// As long as a command runs, nobody knows how long: the first one may not
	// have ended when its output was there.
	left := time.Hour
	for patience := time.Now().Add(90 * time.Second); left > 1200*time.Second && time.Now().Before(patience); {
		y.outcome(y.exec(dir, "true"))
		var s struct{ Expires string }
		y.must(json.Unmarshal([]byte(y.read(dir+"/status")), &s))
		ends, err := time.Parse(fsys.TimeFormat, s.Expires)
		y.must(err)
		left = ends.Sub(y.now())
	}
	if left < 1100*time.Second || left > 1200*time.Second {
		t.Errorf("it ends in %v", left)
	}
	y.must(y.write(dir+"/ctl", "kill"))
	y.ended(n, containers.Stopped, "")
	if err := y.write(dir+"/ctl", "keep"); fsys.CodeOf(err) != fsys.Busy {
		t.Error(err)
	}
}

func TestFiles(t *testing.T) {
	y := newYard(t, fake.Options{})
	dir := y.kept()
	files := func(name string) string { return dir + "/files/workspace/" + name }
	round := func(what string) {
		t.Helper()
		at, err := fsys.WalkPath(y.ctx, y.svc.Root(), dir+"/files/workspace")
		y.must(err)
		name := "a name\nof two lines, ä " + what
		_, h, err := fsys.Create(y.ctx, at, name, 0o644, fsys.Read|fsys.Write)
		y.must(err)
		_, err = fsys.WriteAt(y.ctx, h, []byte("text"), 0)
		y.must(err)
		y.must(fsys.Finish(y.ctx, h))
		y.eq(y.read(files(name)), "text")
		y.must(fsys.Rename(y.ctx, at, name, "new"+what))
		y.eq(y.read(files("new"+what)), "text")
		n, err := fsys.Walk(y.ctx, at, "new"+what)
		y.must(err)
		y.must(fsys.Truncate(y.ctx, n, 2))
		y.eq(y.read(files("new"+what)), "te")
		y.must(fsys.Remove(y.ctx, n))
		_, err = fsys.Mkdir(y.ctx, at, "d"+what, 0o755)
		y.must(err)
		list, err := fsys.List(y.ctx, at)
		y.must(err)
		found := false
		for _, e := range list {
			found = found || e.Name == "d"+what
		}
		if !found {
			t.Errorf("%s: d%s is not in %v", what, what, list)
		}
	}
	round("1")
	y.outcome(y.exec(dir, "echo late > artifact"))
	h, err := fsys.OpenPath(y.ctx, y.svc.Root(), files("artifact"), fsys.Read)
	y.must(err)
	y.must(y.write(dir+"/ctl", "kill"))
	y.ended(strings.TrimPrefix(dir, "sessions/"), containers.Stopped, "")
	b, err := fsys.ReadAll(y.ctx, h) // what was open goes on
	y.must(err)
	y.eq(string(b), "late\n")
	y.must(h.Close())
	y.eq(y.read(files("artifact")), "late\n")
	round("2")
}

// removeAll does what rm -r does.
func removeAll(ctx context.Context, n fsys.Node) error {
	info, err := n.Stat(ctx)
	if err != nil {
		return err
	}
	if info.Kind == fsys.Directory {
		list, err := fsys.List(ctx, n)
		if err != nil {
			return err
		}
		for _, e := range list {
			if err := removeAll(ctx, e.Node); err != nil {
				return fmt.Errorf("%s: %w", e.Name, err)
			}
		}
	}
	return fsys.Remove(ctx, n)
}

func TestRemove(t *testing.T) {
	y := newYard(t, fake.Options{})
	dir := y.kept()
	y.exec(dir, "sleep 1000")
	n, err := fsys.WalkPath(y.ctx, y.svc.Root(), dir)
	y.must(err)
	y.must(removeAll(y.ctx, n))
	if _, err := fsys.WalkPath(y.ctx, y.svc.Root(), dir); !errors.Is(err, fsys.NotExist) {
		t.Errorf("it is still there: %v", err)
	}
	y.must(y.svc.Wait(y.ctx))
	y.must(y.fake.Empty())
	dir = y.kept()
	x := y.exec(dir, "echo x")
	y.outcome(x)
	y.must(y.write(dir+"/ctl", "kill"))
	y.ended(strings.TrimPrefix(dir, "sessions/"), containers.Stopped, "")
	xn, err := fsys.WalkPath(y.ctx, y.svc.Root(), x)
	y.must(err)
	y.must(removeAll(y.ctx, xn))
	n, err = fsys.WalkPath(y.ctx, y.svc.Root(), dir)
	y.must(err)
	y.must(removeAll(y.ctx, n))
	y.must(y.svc.Wait(y.ctx))
	y.must(y.fake.Empty())
	page, err := y.db.List(y.ctx, "containers/", "", 100)
	y.must(err)
	for _, p := range page {
		if k := strings.TrimPrefix(p.Key, "containers/"); k != "next" && k != "totals" && k != "policy" {
			t.Errorf("%s is left", k)
		}
	}
	y.money(0, 0)
}

func TestRetention(t *testing.T) {
	y := newYard(t, fake.Options{})
	y.policy(`{"max_kept":2}`)
	for i := range 4 {
		y.ended(y.ask("echo "+itoa(i)), containers.Done, "")
	}
	y.time.Add(int64(time.Hour))
	last := y.ask("echo last")
	y.ended(last, containers.Done, "")
	y.must(y.svc.Wait(y.ctx))
	list, err := fsys.List(y.ctx, must(fsys.WalkPath(y.ctx, y.svc.Root(), "sessions")))
	y.must(err)
	y.eq(len(list), 2)
	y.policy(`{"keep_sessions":"1h"}`)
	y.time.Add(int64(2 * time.Hour))
	y.ended(y.ask("true"), containers.Done, "")
	y.must(y.svc.Wait(y.ctx))
	list, err = fsys.List(y.ctx, must(fsys.WalkPath(y.ctx, y.svc.Root(), "sessions")))
	y.must(err)
	y.eq(len(list), 1)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestWorkspaces(t *testing.T) {
	y := newYard(t, fake.Options{})
	y.policy(`{"max_workspaces":2}`)
	first := y.ask(`{"commands":["echo kept > file"],"workspace":"w"}`)
	y.ended(first, containers.Done, "")
	y.eq(y.read("sessions/"+first+"/files/workspace/file"), "kept\n")
	dir := y.kept(`"workspace":"w"`)
	y.refused("new", `{"commands":["x"],"workspace":"w"}`, fsys.Busy, "has the workspace w")
	if _, err := fsys.ReadFile(y.ctx, y.svc.Root(), "sessions/"+first+"/files/workspace/file"); fsys.CodeOf(err) != fsys.Busy {
		t.Errorf("two write to one workspace: %v", err)
	}
	y.eq(y.read(dir+"/files/workspace/file"), "kept\n")
	y.outcome(y.exec(dir, "ln -s file link; mkdir d; echo in > d/f"))
	y.must(y.write(dir+"/ctl", "snapshot s"))
	if err := y.write(dir+"/ctl", "snapshot t"); fsys.CodeOf(err) != fsys.Exhausted {
		t.Errorf("a third workspace: %v", err)
	}
	ws := must(fsys.WalkPath(y.ctx, y.svc.Root(), "workspaces/w@fake"))
	if err := fsys.Remove(y.ctx, ws); fsys.CodeOf(err) != fsys.Busy {
		t.Errorf("a workspace in use was removed: %v", err)
	}
	y.must(y.write(dir+"/ctl", "kill"))
	y.ended(strings.TrimPrefix(dir, "sessions/"), containers.Stopped, "")
	n := y.ask(`{"commands":["readlink link; cat file d/f"],"workspace":"s"}`)
	y.ended(n, containers.Done, "")
	y.eq(y.read("sessions/"+n+"/stdout"), "file\nkept\nin\n")
	y.must(fsys.Remove(y.ctx, ws))
	n = y.ask(`{"commands":["ls"],"workspace":"w"}`)
	y.ended(n, containers.Done, "")
	if out := y.read("sessions/" + n + "/stdout"); strings.Contains(out, "file") {
		t.Errorf("a workspace that was removed has %q", out)
	}
}

func TestFiftyAtOnce(t *testing.T) {
	y := newYard(t, fake.Options{})
	y.policy(`{"max_concurrent":50}`)
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			n := y.ask(fmt.Sprintf(`{"commands":["echo %d; sleep 0.2"]}`, i))
			y.ended(n, containers.Done, "")
			y.eq(y.read("sessions/"+n+"/stdout"), itoa(i)+"\n")
			if err := fsys.Remove(y.ctx, must(fsys.WalkPath(y.ctx, y.svc.Root(), "sessions/"+n))); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	y.must(y.svc.Wait(y.ctx))
	y.must(y.fake.Empty())
	y.money(0, 0)
}
