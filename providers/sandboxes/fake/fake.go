//go:build unix

// Package fake is a provider of sandboxes for tests: each is a folder, in which
// commands really run, as the user of the test and with nothing to hold them.
// What can go wrong with a real engine, a test makes happen.
package fake

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"agent9/fsys"
	"agent9/providers/sandboxes"
)

// Image is the one image that needs no pull.
const Image = "fake"

// Options are what can be different. All may be zero.
type Options struct {
	// Helper is cmd/a9, which runs in each sandbox; without one, the box runs
	// in this process, and sandboxes have no program to dial the agent with.
	Helper string
	// Remote are images that a pull finds.
	Remote []string
	// Creating, if set, is called by each Create when progress has a first
	// line; its error is Create's. It should end with ctx.
	Creating func(ctx context.Context, spec sandboxes.Spec) error
	// Usage, if set, replaces what Usage returns.
	Usage func() sandboxes.Usage
}

// Provider is in a folder of its own, which Close removes. Another Provider
// that is opened on the folder finds its sandboxes, as after a restart.
type Provider struct {
	dir  string
	opts Options

	mu     sync.Mutex
	pulled []string
	runs   map[string]*running
}

var _ sandboxes.Provider = (*Provider)(nil)

// New returns a provider in a new temporary folder.
func New(opts Options) (*Provider, error) {
	dir, err := os.MkdirTemp("", "a9fake")
	if err != nil {
		return nil, err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, err
	}
	for _, sub := range []string{"s", "w"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o755); err != nil {
			return nil, err
		}
	}
	return Reopen(dir, opts), nil
}

// Reopen returns a provider on the folder of another one.
func Reopen(dir string, opts Options) *Provider {
	return &Provider{dir: dir, opts: opts, runs: map[string]*running{}}
}

// Dir is the folder.
func (p *Provider) Dir() string { return p.dir }

// Close ends what runs and removes the folder.
func (p *Provider) Close() error {
	p.Crash()
	return os.RemoveAll(p.dir)
}

// Crash ends what runs, as if the engine had died. It goes on as one that was
// started anew.
func (p *Provider) Crash() {
	p.mu.Lock()
	all := slices.Collect(maps.Values(p.runs))
	p.mu.Unlock()
	for _, r := range all {
		r.end()
	}
}

// Empty reports whether no sandbox is left, and nothing runs.
func (p *Provider) Empty() error {
	left, err := os.ReadDir(p.sandboxDir(""))
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(left) > 0 || len(p.runs) > 0 {
		return errors.New("there is a sandbox left")
	}
	return nil
}

func (p *Provider) sandboxDir(id string) string     { return filepath.Join(p.dir, "s", id) }
func (p *Provider) workspaceDir(name string) string { return filepath.Join(p.dir, "w", name) }

func (p *Provider) Info(context.Context) (sandboxes.Info, error) {
	return sandboxes.Info{Driver: "fake", Arch: runtime.GOARCH, DefaultImage: Image}, nil
}

func (p *Provider) Images(context.Context) ([]sandboxes.Image, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	images := []sandboxes.Image{{Name: Image, Size: 1}}
	for _, name := range p.pulled {
		images = append(images, sandboxes.Image{Name: name, Size: 1})
	}
	return images, nil
}

func (p *Provider) Create(ctx context.Context, spec sandboxes.Spec, progress func(string)) (sandboxes.Sandbox, error) {
	if err := p.image(spec, progress); err != nil {
		return nil, err
	}
	progress("making the sandbox")
	if p.opts.Creating != nil {
		if err := p.opts.Creating(ctx, spec); err != nil {
			return nil, err
		}
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return p.make(spec)
}

func (p *Provider) image(spec sandboxes.Spec, progress func(string)) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case spec.Image == "" || spec.Image == Image || slices.Contains(p.pulled, spec.Image):
		return nil
	case !slices.Contains(p.opts.Remote, spec.Image):
		return fsys.E(fsys.NotExist, "there is no image "+spec.Image)
	case !spec.Pull:
		return fsys.Wrap(fsys.NotExist, "the image "+spec.Image, sandboxes.ErrNotPulled)
	}
	progress("pulling " + spec.Image)
	p.pulled = append(p.pulled, spec.Image)
	return nil
}

// workspaces of a sandbox are below its folder, so that it can be confined to
// that: one that persists is moved there and back.
const (
	workspace = "workspace"
	specFile  = "spec.json"
	usageFile = "usage.json"
)

func (p *Provider) make(spec sandboxes.Spec) (_ sandboxes.Sandbox, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.sandbox(rand.Text()[:12])
	defer func() {
		if err != nil {
			s.removeFiles(spec.Workspace)
		}
	}()
	if err := s.lend(spec.Workspace); err != nil {
		return nil, err
	}
	for _, dir := range []string{workspace, "tmp", "run"} {
		if err := os.MkdirAll(filepath.Join(s.dir, dir), 0o755); err != nil {
			return nil, err
		}
	}
	if err := s.writeSkills(spec.Skills); err != nil {
		return nil, err
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	return s, os.WriteFile(filepath.Join(s.dir, specFile), text, 0o644)
}

func (p *Provider) sandbox(id string) *sandbox {
	return &sandbox{provider: p, id: id, dir: p.sandboxDir(id)}
}

func (p *Provider) Open(_ context.Context, id string) (sandboxes.Sandbox, error) {
	if !filepath.IsLocal(id) {
		return nil, fsys.NotExist
	}
	if _, err := os.Stat(filepath.Join(p.sandboxDir(id), specFile)); err != nil {
		return nil, fsys.E(fsys.NotExist, "there is no such sandbox")
	}
	return p.sandbox(id), nil
}

func (p *Provider) List(context.Context) ([]sandboxes.Found, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	dirs, err := os.ReadDir(p.sandboxDir(""))
	var found []sandboxes.Found
	for _, d := range dirs {
		spec, err := p.sandbox(d.Name()).spec()
		if err != nil {
			continue // on its way in or out
		}
		found = append(found, sandboxes.Found{ID: d.Name(), Name: spec.Name, Running: p.runs[d.Name()] != nil})
	}
	return found, err
}

func (p *Provider) RemoveWorkspace(_ context.Context, name string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.inUse(name) {
		return fsys.E(fsys.Busy, "the workspace is in use")
	}
	return os.RemoveAll(p.workspaceDir(name))
}

// inUse reports whether a sandbox has the workspace. p.mu is held.
func (p *Provider) inUse(name string) bool {
	dirs, _ := os.ReadDir(p.sandboxDir(""))
	return slices.ContainsFunc(dirs, func(d fs.DirEntry) bool {
		spec, err := p.sandbox(d.Name()).spec()
		return err == nil && spec.Workspace == name
	})
}

// running is a run of a sandbox.
type running struct {
	conn  net.Conn // the daemon's end
	kill  func()   // ends the box, if closing conn does not
	done  chan struct{}
	begun time.Time
}

// end ends the run and waits for that.
func (r *running) end() {
	r.conn.Close()
	r.kill()
	<-r.done
}
