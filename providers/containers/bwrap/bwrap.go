//go:build linux

package bwrap

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"agent9/fsys"
	"agent9/providers/containers"
	"agent9/providers/containers/bwrap/cgroup"
	"agent9/providers/containers/folder"
)

// Provider is a [containers.Provider]. It is safe for concurrent use.
type Provider struct {
	*folder.Store
	engine *engine
	images map[string]string

	mu      sync.Mutex
	version string // once it is known that sandboxes can be made
}

var _ containers.Provider = (*Provider)(nil)

// New returns the sandboxes below config.Dir. What an earlier daemon left
// running is ended. That bubblewrap is missing or may not run is not New's
// error, but Info's and Create's.
func New(config Config) (*Provider, error) {
	dir, err := filepath.Abs(config.Dir)
	if err != nil {
		return nil, fsys.Wrap(fsys.Invalid, "the folder for sandboxes", err)
	}
	e := &engine{program: config.Program, helper: config.Helper, images: config.Images}
	if e.program == "" {
		e.program = "bwrap"
	}
	if os.Geteuid() == 0 {
		e.owner = config.Owner
		if e.owner == nil {
			e.owner = &folder.Owner{UID: nobody, GID: nobody}
		}
	}
	sum := sha256.Sum256([]byte(dir))
	e.groups = cgroup.Find("agent9-" + hex.EncodeToString(sum[:4]))
	store, err := folder.New(folder.Config{Dir: dir, Owner: e.owner}, e)
	if err != nil {
		return nil, err
	}
	p := &Provider{Store: store, engine: e, images: config.Images}
	if _, err := p.List(context.Background()); err != nil { // ends what goes on
		return nil, err
	}
	e.groups.Sweep()
	return p, nil
}

// Info says whether sandboxes can be made, by making one.
func (p *Provider) Info(ctx context.Context) (containers.Info, error) {
	version, err := p.ready(ctx)
	if err != nil {
		return containers.Info{}, err
	}
	info := containers.Info{
		Driver: "bwrap", Version: version, Arch: runtime.GOARCH,
		Isolated: true, Enforced: p.engine.enforces(), Left: p.Left(),
	}
	if len(p.images) > 0 {
		info.DefaultImage = thisMachine
	}
	return info, nil
}

// ready returns the version of bubblewrap after a sandbox could be made.
func (p *Provider) ready(ctx context.Context) (string, error) {
	p.mu.Lock()
	version := p.version
	p.mu.Unlock()
	if version != "" {
		return version, nil
	}
	path, err := exec.LookPath(p.engine.program)
	if err != nil {
		return "", fsys.E(fsys.Unavailable, "bubblewrap is not installed: install the package bubblewrap, or name the program")
	}
	out, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return "", fsys.Wrap(fsys.Unavailable, "bubblewrap", err)
	}
	dir, err := p.Scratch()
	if err != nil {
		return "", fsys.Wrap(fsys.Unavailable, "trying bubblewrap", err)
	}
	defer p.Drop(dir)
	if err := p.engine.probe(ctx, dir); err != nil {
		return "", err
	}
	version = strings.TrimSpace(strings.TrimPrefix(string(out), "bubblewrap "))
	p.mu.Lock()
	p.version = version
	p.mu.Unlock()
	return version, nil
}

// Images lists the root file systems that the operator named.
func (p *Provider) Images(ctx context.Context) ([]containers.Image, error) {
	var list []containers.Image
	for _, name := range slices.Sorted(maps.Keys(p.images)) {
		info, err := os.Stat(p.images[name])
		if err != nil {
			continue // Create says what is wrong with it
		}
		size, err := sizeOf(ctx, p.images[name])
		if err != nil {
			return nil, err
		}
		list = append(list, containers.Image{Name: name, Size: size, Created: info.ModTime()})
	}
	return list, nil
}

// sizeOf is the size of all files below dir.
func sizeOf(ctx context.Context, dir string) (int64, error) {
	var size int64
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // what cannot be read has no size
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
			size += info.Size()
		}
		return ctx.Err()
	})
	return size, err
}

// Create makes a sandbox; see [containers.Provider].
func (p *Provider) Create(ctx context.Context, spec containers.Spec, progress func(string)) (containers.Sandbox, error) {
	if err := p.engine.check(spec); err != nil {
		return nil, err
	}
	if _, err := p.ready(ctx); err != nil {
		return nil, err
	}
	return p.Store.Create(ctx, spec, progress)
}
