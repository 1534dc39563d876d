package conformance

import (
	"context"
	"strings"
	"testing"
	"time"

	"agent9/fsys"
	"agent9/namespace/budget"
	"agent9/providers/sandboxes"
)

var lifeRules = []sandboxRule{
	{"images", images},
	{"nobody pays", nobodyPays},
	{"missing image", missingImage},
	{"create is cancelled", createCancelled},
	{"stop while a command runs", stopWhileBusy},
	{"the engine dies", engineDies},
	{"files after the end", filesAfterEnd},
	{"the daemon hangs up", daemonHangsUp},
	{"workspace", workspacePersists},
	{"sweep", sweep},
	{"usage", usageOfSandbox},
	{"two apart", twoApart},
}

func images(t *testing.T, s *fixture) {
	list, err := s.runner.Images(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want, found := s.Image, false
	if want == "" {
		want = s.info.DefaultImage
	}
	for _, i := range list {
		found = found || i.Name == want
	}
	if want != "" && !found {
		t.Errorf("the image %s is not among %+v", want, list)
	}
}

func nobodyPays(t *testing.T, s *fixture) {
	if _, err := s.runner.Create(t.Context(), nil, sandboxes.Spec{Image: s.Image}, nil); fsys.CodeOf(err) != fsys.Permission {
		t.Errorf("Create without money: %v", err)
	}
}

func missingImage(t *testing.T, s *fixture) {
	if s.Missing == "" {
		t.Skip("the provider has no images")
	}
	for _, pull := range []bool{false, true} {
		_, err := s.runner.Create(t.Context(), new(budget.Hold), sandboxes.Spec{Image: s.Missing, Pull: pull}, nil)
		switch code := fsys.CodeOf(err); {
		case err == nil:
			t.Errorf("pull %v: a sandbox of an image that does not exist", pull)
		case code != fsys.NotExist && !(pull && code == fsys.Unavailable):
			t.Errorf("pull %v: %v, want %v", pull, err, fsys.NotExist)
		case !strings.Contains(fsys.ReasonOf(err), s.Missing):
			t.Errorf("pull %v: the reason %q does not name the image", pull, fsys.ReasonOf(err))
		}
	}
}

// createCancelled ends Create at many points; nothing may be left.
func createCancelled(t *testing.T, s *fixture) {
	before := s.ids(t)
	for after := time.Duration(0); after < 200*time.Millisecond; after = after*2 + time.Millisecond {
		ctx, cancel := context.WithTimeout(t.Context(), after)
		box, err := s.runner.Create(ctx, new(budget.Hold), sandboxes.Spec{Image: s.Image}, nil)
		cancel()
		if err == nil {
			s.remove(t, box)
		} else if code := fsys.CodeOf(err); code != fsys.Timeout && code != fsys.Canceled {
			t.Errorf("Create that was ended after %v: %v", after, err)
		}
	}
	for id := range s.ids(t) {
		if !before[id] {
			t.Errorf("the sandbox %s is left", id)
		}
	}
}

// ids are the sandboxes that there are.
func (s *fixture) ids(t *testing.T) map[string]bool {
	t.Helper()
	list, err := s.Provider.List(t.Context())
	if err != nil {
		t.Fatalf("List: %v", err)
	}
	ids := map[string]bool{}
	for _, f := range list {
		ids[f.ID] = true
	}
	return ids
}

func stopWhileBusy(t *testing.T, s *fixture) {
	in := inBox{t, s, s.create(t, sandboxes.Spec{})}
	b, _ := in.start(shell("echo ready; sleep 1000"), sandboxes.Streams{})
	b.until(in, "ready")
	if err := in.box.Err(); err != nil || !in.box.Running() {
		t.Errorf("while it runs: %v", err)
	}
	if err := in.box.Stop(t.Context()); err != nil {
		t.Errorf("Stop: %v", err)
	}
	b.wait(in)
	if b.err == nil {
		t.Errorf("the command ended with %+v", b.r.exit)
	}
	select {
	case <-in.box.Done():
	case <-time.After(s.Bound):
		t.Error("it is not done")
	}
	if in.box.Running() || fsys.CodeOf(in.box.Err()) != fsys.Canceled {
		t.Errorf("after Stop: %v", in.box.Err())
	}
	if _, err := in.box.Exec(t.Context(), shell("echo"), sandboxes.Streams{}); err == nil {
		t.Error("a command in a sandbox that was stopped")
	}
	if err := in.box.Stop(t.Context()); err != nil {
		t.Errorf("Stop again: %v", err)
	}
}

func engineDies(t *testing.T, s *fixture) {
	if s.Crash == nil {
		t.Skip("the engine cannot be made to die")
	}
	in := inBox{t, s, s.create(t, sandboxes.Spec{})}
	b, _ := in.start(shell("echo ready; sleep 1000"), sandboxes.Streams{})
	b.until(in, "ready")
	s.Crash(t, in.box.ID())
	b.wait(in)
	if fsys.CodeOf(b.err) != fsys.Unavailable {
		t.Errorf("the command ended with %+v, %v", b.r.exit, b.err)
	}
	select {
	case <-in.box.Done():
	case <-time.After(s.Bound):
		t.Fatal("it is not done")
	}
	if fsys.CodeOf(in.box.Err()) != fsys.Unavailable {
		t.Errorf("after the engine died: %v", in.box.Err())
	}
}

func filesAfterEnd(t *testing.T, s *fixture) {
	in := inBox{t, s, s.create(t, sandboxes.Spec{})}
	in.must("echo result >artifact")
	if err := in.box.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	runner := s.runner
	if s.Again != nil {
		runner = sandboxes.NewRunner("again", s.Again(t))
	}
	if _, err := runner.Open(t.Context(), in.box.ID(), func(string) bool { return false }); fsys.CodeOf(err) != fsys.NotExist {
		t.Errorf("Open of another's: %v", err)
	}
	box, err := runner.Open(t.Context(), in.box.ID(), anyName)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	if box.Running() {
		t.Error("it runs")
	}
	for range 2 {
		if err := box.Start(t.Context()); err != nil {
			t.Fatalf("Start: %v", err)
		}
		if got := string((inBox{t, s, box}).get("artifact")); got != "result\n" {
			t.Errorf("the file is %q", got)
		}
		if err := box.Stop(t.Context()); err != nil {
			t.Errorf("Stop: %v", err)
		}
	}
	if err := box.Remove(t.Context()); err != nil {
		t.Errorf("Remove: %v", err)
	}
	if _, err := runner.Open(t.Context(), in.box.ID(), anyName); fsys.CodeOf(err) != fsys.NotExist {
		t.Errorf("Open of what was removed: %v", err)
	}
}

// daemonHangsUp checks that a sandbox ends with the connection to it.
func daemonHangsUp(t *testing.T, s *fixture) {
	sandbox, err := s.Provider.Create(t.Context(), sandboxes.Spec{Image: s.Image}, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sandbox.Remove(context.WithoutCancel(t.Context())) })
	conn, err := sandbox.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !s.isRunning(t, sandbox.ID()) {
		t.Error("List says that it does not run")
	}
	conn.Close()
	for deadline := time.Now().Add(s.Bound); s.isRunning(t, sandbox.ID()); {
		if time.Now().After(deadline) {
			t.Fatal("it runs on")
		}
		<-time.After(20 * time.Millisecond)
	}
}

func (s *fixture) isRunning(t *testing.T, id string) bool {
	list, err := s.Provider.List(t.Context())
	if err != nil {
		t.Fatalf("List: %v", err)
	}
	for _, f := range list {
		if f.ID == id {
			return f.Running
		}
	}
	return false
}

func workspacePersists(t *testing.T, s *fixture) {
	const name = "conformance-workspace"
	t.Cleanup(func() {
		if err := s.runner.RemoveWorkspace(context.WithoutCancel(t.Context()), name); err != nil {
			t.Errorf("RemoveWorkspace: %v", err)
		}
	})
	spec := sandboxes.Spec{Workspace: name, Image: s.Image}
	in := inBox{t, s, s.create(t, spec)}
	in.must("test ! -e kept; echo 1 >kept")
	if _, err := s.runner.Create(t.Context(), new(budget.Hold), spec, nil); fsys.CodeOf(err) != fsys.Busy {
		t.Errorf("a second sandbox with the workspace: %v, want %v", err, fsys.Busy)
	}
	if err := s.runner.RemoveWorkspace(t.Context(), name); fsys.CodeOf(err) != fsys.Busy {
		t.Errorf("RemoveWorkspace of one in use: %v, want %v", err, fsys.Busy)
	}
	s.remove(t, in.box)
	in = inBox{t, s, s.create(t, spec)}
	if got := in.must("cat kept"); got != "1\n" {
		t.Errorf("in the next sandbox: %q", got)
	}
	s.remove(t, in.box)
	if err := s.runner.RemoveWorkspace(t.Context(), name); err != nil {
		t.Errorf("RemoveWorkspace: %v", err)
	}
	in = inBox{t, s, s.create(t, spec)}
	in.must("test ! -e kept")
	s.remove(t, in.box)
}

func sweep(t *testing.T, s *fixture) {
	kept := s.create(t, sandboxes.Spec{Name: "kept"})
	other := s.create(t, sandboxes.Spec{Name: "other"})
	runner := s.runner
	if s.Again != nil {
		runner = sandboxes.NewRunner("again", s.Again(t))
	}
	names := map[string]string{}
	err := runner.Sweep(t.Context(), func(f sandboxes.Found) bool {
		names[f.ID] = f.Name
		return f.ID != other.ID()
	})
	if err != nil {
		t.Errorf("Sweep: %v", err)
	}
	if names[kept.ID()] != "kept" || names[other.ID()] != "other" {
		t.Errorf("the names are %v", names)
	}
	if ids := s.ids(t); !ids[kept.ID()] || ids[other.ID()] {
		t.Errorf("after Sweep there are %v", ids)
	}
}

func usageOfSandbox(t *testing.T, s *fixture) {
	in := inBox{t, s, s.create(t, sandboxes.Spec{})}
	in.must("sleep 0.3; i=0; while test $i -lt 100000; do i=$((i+1)); done")
	u, err := in.box.Usage(t.Context())
	if err != nil {
		t.Fatalf("Usage: %v", err)
	}
	if u.Wall < 300*time.Millisecond || u.CPU < 0 || u.Memory < 0 {
		t.Errorf("while it runs: %+v", u)
	}
	if err := in.box.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	end, err := in.box.Usage(t.Context())
	if err != nil || end.Wall < u.Wall || end.CPU < u.CPU {
		t.Errorf("after the end: %+v, %v; before it was %+v", end, err, u)
	}
	again, err := in.box.Usage(t.Context())
	if err != nil || again != end {
		t.Errorf("it goes on after the end: %+v, %v", again, err)
	}
}

func twoApart(t *testing.T, s *fixture) {
	a := inBox{t, s, s.create(t, sandboxes.Spec{})}
	b := inBox{t, s, s.create(t, sandboxes.Spec{})}
	a.must("echo a >who; echo a >$1/who", a.box.Where().Tmp)
	b.must("test ! -e who && test ! -e $1/who", b.box.Where().Tmp)
	if a.box.ID() == b.box.ID() {
		t.Error("two sandboxes have one ID")
	}
	if !s.info.Isolated {
		return
	}
	bg, _ := a.start(shell("echo ready; sleep 1000"), sandboxes.Streams{})
	bg.until(a, "ready")
	if out := b.must("ps -o args 2>/dev/null || ps ax"); strings.Contains(out, "sleep 1000") {
		t.Errorf("one sees the processes of the other: %s", out)
	}
}

func anyName(string) bool { return true }
