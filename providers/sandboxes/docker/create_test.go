//go:build unix

package docker_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/volume"

	"agent9/fsys"
	"agent9/providers/sandboxes"
	"agent9/providers/sandboxes/docker"
)

func TestCreateRefuses(t *testing.T) {
	t.Parallel()
	b := on(t, shared.Get(t))
	for _, c := range []struct {
		what   string
		spec   sandboxes.Spec
		code   fsys.Code
		reason string
	}{
		{"no image", sandboxes.Spec{Image: "agent9-test-missing"}, fsys.NotExist, "may not be pulled"},
		{"no name of an image", sandboxes.Spec{Image: "../containers/x"}, fsys.Invalid, "cannot be the name of an image"},
		{"an option", sandboxes.Spec{Image: "--privileged"}, fsys.Invalid, "cannot be the name of an image"},
		{"no network", sandboxes.Spec{Limits: sandboxes.Limits{Network: true}}, fsys.Invalid, "no network bridge"},
		{"memory for nothing", sandboxes.Spec{Limits: sandboxes.Limits{Memory: 1 << 10}}, fsys.Invalid, "emory limit"},
		{"no registry", sandboxes.Spec{Image: "127.0.0.1:1/x", Pull: true}, fsys.Unavailable, "connection refused"},
	} {
		_, err := b.Create(t.Context(), c.spec, silent)
		if fsys.CodeOf(err) != c.code || !strings.Contains(fsys.ReasonOf(err), c.reason) {
			t.Errorf("%s: %v, want %v with %q", c.what, err, c.code, c.reason)
		}
	}
	if left := b.left(false); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// TestNetwork uses the one that the test's engine has.
func TestNetwork(t *testing.T) {
	t.Parallel()
	b := on(t, shared.Get(t))
	b.config.Network = "host"
	b.Provider = b.another()
	box := b.box(sandboxes.Spec{Limits: sandboxes.Limits{Network: true, CPUs: 1_000_000}})
	if out, _ := b.sh(box, "wc -l </proc/net/tcp"); out == "1" {
		t.Error("nobody listens on this host, not even the engine of the test")
	}
	box = b.box(sandboxes.Spec{})
	if out, _ := b.sh(box, "ls /sys/class/net"); out != "lo" {
		t.Errorf("without a network: %q", out)
	}
}

func TestNoEngine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, c := range []struct {
		host, reason string
	}{
		{"unix://" + filepath.Join(dir, "none.sock"), "does not answer"},
		{"tcp://127.0.0.1:1", "does not answer"},
		{"ssh://somebody@example.org", "forward its socket"},
		{"nonsense", "address"},
	} {
		p, err := docker.New(docker.Config{Host: c.host, Owner: "test"})
		if err == nil {
			_, err = p.Info(t.Context())
		}
		if !strings.Contains(fsys.ReasonOf(err), c.reason) {
			t.Errorf("%s: %v, want %q", c.host, err, c.reason)
		}
	}
	if _, err := docker.New(docker.Config{}); fsys.CodeOf(err) != fsys.Invalid {
		t.Errorf("no owner: %v", err)
	}
}

// TestManyAtOnce makes, uses and removes twenty sandboxes at a time.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	b := on(t, shared.Get(t))
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			s, err := b.Create(t.Context(), sandboxes.Spec{
				Name:   fmt.Sprint("n", i),
				Skills: []sandboxes.File{{Name: "s", Data: fmt.Append(nil, i%3)}},
			}, silent)
			if err != nil {
				t.Errorf("Create: %v", err)
				return
			}
			box, err := sandboxes.NewRunner("docker", b).Open(t.Context(), s.ID(), func(string) bool { return true })
			if err == nil {
				err = box.Start(t.Context())
			}
			if err != nil {
				t.Errorf("Start: %v", err)
				return
			}
			if out, _ := b.sh(box, "cat skills/s"); out != fmt.Sprint(i%3) {
				t.Errorf("sandbox %d has the skill %q", i, out)
			}
			if err := box.Remove(context.Background()); err != nil {
				t.Errorf("Remove: %v", err)
			}
		})
	}
	all.Wait()
	if found, err := b.List(t.Context()); err != nil || len(found) > 0 {
		t.Errorf("List: %+v, %v", found, err)
	}
	if left := b.left(false); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// TestCancelled gives up at any moment of Create and Start. Nothing is left of
// a Create that failed, and nothing runs after a Start that did.
func TestCancelled(t *testing.T) {
	t.Parallel()
	b := on(t, shared.Get(t))
	spec := sandboxes.Spec{Workspace: "w", Skills: []sandboxes.File{{Name: "s", Data: []byte("x")}}}
	var done, failed int
	for i := range 10 {
		if i%5 == 0 { // nothing is prepared
			b.config.Owner = fmt.Sprint(t.Name(), i)
			b.Provider = b.another()
			t.Cleanup((&bench{Provider: b.Provider, t: t, engine: b.engine, config: b.config}).cleanUp)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(700))*time.Millisecond)
		s, err := b.Create(ctx, spec, silent)
		if err == nil {
			conn, serr := s.Start(ctx)
			if err = serr; err == nil {
				conn.Close()
			}
			if found, lerr := b.List(t.Context()); err != nil && (lerr != nil || len(found) != 1 || found[0].Running) {
				t.Errorf("after a Start that failed with %v: %+v, %v", err, found, lerr)
			}
			if err := s.Remove(t.Context()); err != nil {
				t.Errorf("Remove: %v", err)
			}
		}
		cancel()
		if err == nil {
			done++
		} else if failed++; fsys.CodeOf(err) != fsys.Timeout {
			t.Errorf("given up: %v", err)
		}
		if found, err := b.List(t.Context()); err != nil || len(found) > 0 {
			t.Errorf("List: %+v, %v", found, err)
		}
		for _, left := range b.left(false) {
			if !strings.HasPrefix(left, "volume agent9-workspace-") {
				t.Errorf("left behind: %s", left)
			}
		}
		if err := b.RemoveWorkspace(t.Context(), "w"); err != nil {
			t.Error(err)
		}
	}
	t.Logf("%d came to their end, %d were given up", done, failed)
}

// TestStrangers leaves alone what is not ours: containers and volumes without
// our label, and those of another daemon on the same engine.
func TestStrangers(t *testing.T) {
	t.Parallel()
	b := on(t, shared.Get(t))
	ctx := t.Context()
	api := b.engine.API
	_, err := api.ContainerCreate(ctx, &container.Config{Image: b.engine.Busybox(t), Cmd: []string{"true"}}, nil, nil, nil, "agent9-stranger")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := api.ContainerRemove(context.Background(), "agent9-stranger", container.RemoveOptions{}); err != nil {
			t.Errorf("the stranger's container: %v", err)
		}
	})
	if _, err := api.VolumeCreate(ctx, volume.CreateOptions{Name: "agent9-strange-volume"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := api.VolumeRemove(context.Background(), "agent9-strange-volume", false); err != nil {
			t.Errorf("the stranger's volume: %v", err)
		}
	})
	b.config.Owner += " other"
	other := &bench{t: t, engine: b.engine, config: b.config}
	other.Provider = other.another()
	t.Cleanup(other.cleanUp)
	theirs := other.create(sandboxes.Spec{Workspace: "w"})

	for _, id := range []string{"agent9-stranger", theirs.ID()} {
		if _, err := b.Open(ctx, id); fsys.CodeOf(err) != fsys.NotExist {
			t.Errorf("Open of %s, which is not ours: %v", id, err)
		}
	}
	if err := sandboxes.NewRunner("docker", b).Sweep(ctx, func(sandboxes.Found) bool { return false }); err != nil {
		t.Error(err)
	}
	if err := b.RemoveWorkspace(ctx, "w"); err != nil {
		t.Error(err)
	}
	if found, err := other.List(ctx); err != nil || len(found) != 1 || found[0].ID != theirs.ID() {
		t.Errorf("the other's sandboxes: %+v, %v", found, err)
	}
	if err := theirs.Remove(ctx); err != nil {
		t.Error(err)
	}
	if err := other.RemoveWorkspace(ctx, "w"); err != nil {
		t.Error(err)
	}
}

// TestTidy finds what a crash left: a hand, and skills and images that nobody
// uses.
func TestTidy(t *testing.T) {
	t.Parallel()
	b := on(t, shared.Get(t))
	ctx := t.Context()
	s := b.create(sandboxes.Spec{Skills: []sandboxes.File{{Name: "s"}}})
	if err := s.Remove(ctx); err != nil {
		t.Fatal(err)
	}
	before := b.left(true)
	// The same with another helper, as after an update.
	h, err := helper()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "a9")
	if err := os.Link(h.Path, path); err != nil {
		t.Skip(err)
	}
	b.config.Helper = func(string) (sandboxes.Helper, error) { return sandboxes.Helper{Path: path, Hash: "newer"}, nil }
	if _, err := b.another().List(ctx); err != nil {
		t.Error(err)
	}
	if left := b.left(true); len(before) != 2 || len(left) > 0 {
		t.Errorf("before %q, after an update %q", before, left)
	}
	// What this provider knows to be made is gone, and is made again.
	box := b.box(sandboxes.Spec{Skills: []sandboxes.File{{Name: "s", Data: []byte("again")}}})
	if out, _ := b.sh(box, "cat skills/s"); out != "again" {
		t.Errorf("the skill: %q", out)
	}
}
