package conformance

import (
	"bytes"
	"context"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"agent9/fsys"
	"agent9/namespace/budget"
	"agent9/providers/sandboxes"
)

// Containers is a provider of sandboxes under test, and what it is known to
// do. What its Info says is believed, and checked. An image must have sh and
// the usual tools, as busybox is.
type Containers struct {
	Provider sandboxes.Provider
	// Image is what the sandboxes are made of; empty is the default.
	Image string
	// Missing is an image that is nowhere; empty if the provider has none.
	Missing string
	// Again returns another provider on the same engine, as after a restart of
	// the daemon.
	Again func(t *testing.T) sandboxes.Provider
	// Crash ends the run of a sandbox as if the engine had died; nil if that
	// cannot be done.
	Crash func(t *testing.T, id string)
	// SkillsFixed says that no program in a sandbox can change a skill.
	SkillsFixed bool
	// Left returns what is left of sandboxes on the machine, at the end: an
	// error if there is anything.
	Left func() error
	// Bound is how long a test waits for what should happen soon; 0 means 30 s.
	Bound time.Duration
}

// TestContainers checks that a driver keeps the contract of
// containers.Provider, and that the box works in its sandboxes.
func TestContainers(t *testing.T, c Containers) {
	if c.Bound == 0 {
		c.Bound = 30 * time.Second
	}
	info, err := c.Provider.Info(t.Context())
	if err != nil {
		t.Fatalf("Info: %v", err)
	}
	s := &fixture{Containers: c, info: info, runner: sandboxes.NewRunner("test", c.Provider)}
	t.Run("shared", func(t *testing.T) {
		box := s.create(t, sandboxes.Spec{Skills: []sandboxes.File{{Name: "sums.md", Data: []byte(skill)}}})
		for _, rule := range slices.Concat(execRules, terminalRules, fileRules, callRules, killRules) {
			t.Run(rule.name, func(t *testing.T) { rule.check(inBox{t, s, box}) })
		}
	})
	for _, rule := range slices.Concat(lifeRules, limitRules) {
		t.Run(rule.name, func(t *testing.T) { rule.check(t, s) })
	}
	if c.Left != nil {
		if err := c.Left(); err != nil {
			t.Errorf("something is left behind: %v", err)
		}
	}
}

// skill is a file that is in the shared sandbox.
const skill = "---\nname: sums\n---\nAdd up.\n"

// A fixture is a provider with what is known of it.
type fixture struct {
	Containers
	info   sandboxes.Info
	runner *sandboxes.Runner
}

// A boxRule is checked in a sandbox that others use too.
type boxRule struct {
	name  string
	check func(in inBox)
}

// A sandboxRule makes its own sandboxes.
type sandboxRule struct {
	name  string
	check func(t *testing.T, s *fixture)
}

func (s *fixture) enforces(limit string) bool { return slices.Contains(s.info.Enforced, limit) }

// create makes a sandbox that is gone when the test has ended.
func (s *fixture) create(t *testing.T, spec sandboxes.Spec) *sandboxes.Box {
	t.Helper()
	if spec.Image == "" {
		spec.Image = s.Image
	}
	ctx, cancel := context.WithTimeout(t.Context(), s.Bound)
	defer cancel()
	box, err := s.runner.Create(ctx, new(budget.Hold), spec, nil)
	if err != nil {
		t.Fatalf("Create: %v", err)
	}
	t.Cleanup(func() { s.remove(t, box) })
	return box
}

func (s *fixture) remove(t *testing.T, box *sandboxes.Box) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), s.Bound)
	defer cancel()
	if err := box.Remove(ctx); err != nil && fsys.CodeOf(err) != fsys.NotExist {
		t.Errorf("Remove: %v", err)
	}
}

// inBox is a test with a sandbox.
type inBox struct {
	*testing.T
	s   *fixture
	box *sandboxes.Box
}

// A result is what a command did.
type result struct {
	out, err string
	all      string // both, as they came
	exit     sandboxes.Exit
}

// exec runs a command and fails the test if there is no exit.
func (in inBox) exec(cmd sandboxes.Command, streams sandboxes.Streams) result {
	in.Helper()
	r, err := in.try(in.Context(), cmd, streams)
	if err != nil {
		in.Fatalf("Exec %q: %v", cmd.Argv, err)
	}
	return r
}

func (in inBox) try(ctx context.Context, cmd sandboxes.Command, streams sandboxes.Streams) (result, error) {
	ctx, cancel := context.WithTimeout(ctx, in.s.Bound)
	defer cancel()
	var outs [3]bytes.Buffer
	tell := streams.Out
	streams.Out = func(fd int, p []byte) error {
		outs[0].Write(p)
		outs[fd].Write(p)
		if tell != nil {
			return tell(fd, p)
		}
		return nil
	}
	exit, err := in.box.Exec(ctx, cmd, streams)
	return result{all: outs[0].String(), out: outs[1].String(), err: outs[2].String(), exit: exit}, err
}

// sh runs a script.
func (in inBox) sh(script string, args ...string) result {
	in.Helper()
	return in.exec(shell(script, args...), sandboxes.Streams{})
}

func shell(script string, args ...string) sandboxes.Command {
	return sandboxes.Command{Argv: append([]string{"sh", "-c", script, "sh"}, args...)}
}

// must is sh for a script that succeeds, and returns its output.
func (in inBox) must(script string, args ...string) string {
	in.Helper()
	r := in.sh(script, args...)
	if r.exit.Code != 0 {
		in.Fatalf("%s: %+v\n%s", script, r.exit, r.all)
	}
	return r.out
}

// workspace returns the workspace among the files.
func (in inBox) workspace() fsys.Node {
	in.Helper()
	root, err := in.box.Files(in.Context())
	if err != nil {
		in.Fatalf("Files: %v", err)
	}
	where := in.box.Where()
	below, ok := where.Path(where.Workspace)
	if !ok {
		in.Fatalf("the workspace %s is not below the root %s", where.Workspace, where.Root)
	}
	n, err := fsys.WalkPath(in.Context(), root, below)
	if err != nil {
		in.Fatalf("the workspace among the files: %v", err)
	}
	return n
}

// A background command is one that goes on while the test does something.
type background struct {
	over chan struct{}
	r    result
	err  error
	said chan string // what it has written, as it came
}

// start runs a command until the test ends it, or ends.
func (in inBox) start(cmd sandboxes.Command, streams sandboxes.Streams) (b *background, cancel context.CancelFunc) {
	ctx, cancel := context.WithCancel(in.Context())
	b = &background{over: make(chan struct{}), said: make(chan string, 1000)}
	streams.Out = func(_ int, p []byte) error {
		b.said <- string(p)
		return nil
	}
	go func() {
		defer close(b.over)
		b.r, b.err = in.try(ctx, cmd, streams)
	}()
	in.Cleanup(func() {
		cancel()
		<-b.over
	})
	return b, cancel
}

// until waits until the command has written want.
func (b *background) until(in inBox, want string) {
	in.Helper()
	var all strings.Builder
	for !strings.Contains(all.String(), want) {
		select {
		case s := <-b.said:
			all.WriteString(s)
		case <-b.over:
			in.Fatalf("the command ended (%+v, %v) and wrote %q, not %q", b.r.exit, b.err, b.r.all, want)
		case <-time.After(in.s.Bound):
			in.Fatalf("the command wrote %q, and not %q", all.String(), want)
		}
	}
}

// wait waits for the command's end.
func (b *background) wait(in inBox) {
	in.Helper()
	select {
	case <-b.over:
	case <-time.After(in.s.Bound):
		in.Fatalf("the command does not end")
	}
}

// Helper builds cmd/a9, as drivers need it, and returns where it is.
func Helper(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a9")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags=-s -w", "-o", path, "agent9/cmd/a9")
	build.Env = append(build.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("the helper cannot be built: %v\n%s", err, out)
	}
	if _, err := sandboxes.CheckHelper(path, runtime.GOOS, runtime.GOARCH); err != nil {
		t.Fatal(err)
	}
	return path
}

// heapBound runs f and fails if what this process keeps in memory grew by more
// than most bytes at any time that f looks: f calls look.
func heapBound(t testing.TB, most uint64, f func(look func())) {
	t.Helper()
	var before, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var once sync.Once
	f(func() {
		runtime.ReadMemStats(&now)
		if now.HeapAlloc > before.HeapAlloc+most { // perhaps the collector is late
			runtime.GC()
			runtime.ReadMemStats(&now)
		}
		if now.HeapAlloc > before.HeapAlloc+most {
			once.Do(func() { t.Errorf("the memory grew by %d MB", (now.HeapAlloc-before.HeapAlloc)>>20) })
		}
	})
}
