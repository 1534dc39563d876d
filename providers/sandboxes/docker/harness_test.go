//go:build unix

package docker_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/volume"

	"agent9/conformance/engine"
	"agent9/providers/sandboxes"
	"agent9/providers/sandboxes/docker"
)

var shared engine.Shared

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "agent9-docker-test-")
	if err != nil {
		panic(err)
	}
	helperDir = dir
	code := m.Run()
	shared.Stop()
	os.RemoveAll(dir)
	os.Exit(code)
}

var helperDir string

// helper is cmd/a9, built once.
var helper = sync.OnceValues(func() (sandboxes.Helper, error) {
	path := filepath.Join(helperDir, "a9")
	build := exec.Command("go", "build", "-o", path, "agent9/cmd/a9")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	if out, err := build.CombinedOutput(); err != nil {
		return sandboxes.Helper{}, &os.PathError{Op: string(out), Path: path, Err: err}
	}
	return sandboxes.CheckHelper(path, "linux", "")
})

// bench is a provider on an engine, with what a test needs to use and check it.
type bench struct {
	*docker.Provider
	t      testing.TB
	engine *engine.Engine
	config docker.Config
}

// on returns a provider with an owner of its own, of whom nothing may be left
// when t ends but what sandboxes are made of.
func on(t testing.TB, e *engine.Engine) *bench {
	t.Helper()
	b := &bench{t: t, engine: e, config: docker.Config{
		Host: e.Host, Owner: t.Name(), DefaultImage: e.Busybox(t),
		Helper: func(string) (sandboxes.Helper, error) { return helper() },
	}}
	b.Provider = b.another()
	t.Cleanup(b.cleanUp)
	return b
}

// another is one more provider for the same owner, as after a restart.
func (b *bench) another() *docker.Provider {
	b.t.Helper()
	p, err := docker.New(b.config)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { p.Close() })
	return p
}

// left is everything on the engine that belongs to the owner, of its hands too.
func (b *bench) left(images bool) (names []string) {
	ctx := context.Background()
	mine := filters.NewArgs(filters.Arg("label", "agent9.owner="+b.config.Owner))
	for _, f := range []filters.Args{mine, filters.NewArgs(filters.Arg("name", "^/"+b.HandPrefix()))} {
		all, err := b.engine.API.ContainerList(ctx, container.ListOptions{All: true, Filters: f})
		if err != nil {
			b.t.Fatal(err)
		}
		for _, c := range all {
			if len(c.Names) > 0 { // else it is being removed
				names = append(names, "container "+c.Names[0])
			}
		}
	}
	volumes, err := b.engine.API.VolumeList(ctx, volume.ListOptions{Filters: mine})
	if err != nil {
		b.t.Fatal(err)
	}
	for _, v := range volumes.Volumes {
		names = append(names, "volume "+v.Name)
	}
	all, err := b.engine.API.ImageList(ctx, image.ListOptions{Filters: mine})
	if err != nil {
		b.t.Fatal(err)
	}
	for _, i := range all {
		if images {
			names = append(names, "image "+i.ID)
		}
	}
	return names
}

// cleanUp sweeps as a daemon does that has no sessions, and checks that it
// leaves nothing.
func (b *bench) cleanUp() {
	ctx := context.Background()
	p := b.another()
	r := sandboxes.NewRunner("docker", p)
	if err := r.Sweep(ctx, func(sandboxes.Found) bool { return false }); err != nil {
		b.t.Errorf("sweep: %v", err)
	}
	if _, err := p.List(ctx); err != nil { // tidies what the sandboxes used
		b.t.Errorf("list: %v", err)
	}
	if left := b.left(false); len(left) > 0 {
		b.t.Errorf("left behind: %q", left)
	}
	images, _ := b.engine.API.ImageList(ctx, image.ListOptions{Filters: filters.NewArgs(filters.Arg("label", "agent9.owner="+b.config.Owner))})
	for _, i := range images {
		if _, err := b.engine.API.ImageRemove(ctx, i.ID, image.RemoveOptions{Force: true, PruneChildren: true}); err != nil {
			b.t.Errorf("removing %s: %v", i.ID, err)
		}
	}
}

func silent(string) {}

// create makes a sandbox that does not run.
func (b *bench) create(spec sandboxes.Spec) sandboxes.Sandbox {
	b.t.Helper()
	s, err := b.Create(b.t.Context(), spec, silent)
	if err != nil {
		b.t.Fatalf("Create: %v", err)
	}
	return s
}

// box makes a sandbox that runs.
func (b *bench) box(spec sandboxes.Spec) *sandboxes.Box {
	b.t.Helper()
	return b.start(b.create(spec).ID())
}

func (b *bench) start(id string) *sandboxes.Box {
	b.t.Helper()
	box, err := sandboxes.NewRunner("docker", b).Open(b.t.Context(), id, func(string) bool { return true })
	if err != nil {
		b.t.Fatalf("Open: %v", err)
	}
	if err := box.Start(b.t.Context()); err != nil {
		b.t.Fatalf("Start: %v", err)
	}
	b.t.Cleanup(func() { box.Stop(context.Background()) })
	return box
}

// sh runs a shell command and returns what it wrote.
func (b *bench) sh(box *sandboxes.Box, command string) (string, sandboxes.Exit) {
	b.t.Helper()
	var out bytes.Buffer
	exit, err := box.Exec(b.t.Context(),
		sandboxes.Command{Argv: []string{"/bin/sh", "-c", command}, Timeout: time.Minute},
		sandboxes.Streams{Out: func(_ int, p []byte) error { out.Write(p); return nil }})
	if err != nil {
		b.t.Fatalf("%s: %v", command, err)
	}
	return strings.TrimSpace(out.String()), exit
}
