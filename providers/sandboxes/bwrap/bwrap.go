//go:build linux

package bwrap

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"agent9/fsys"
	"agent9/providers/sandboxes"
	"agent9/providers/sandboxes/bwrap/cgroup"
	"agent9/providers/sandboxes/bwrap/launch"
	"agent9/providers/sandboxes/folder"
)

// Provider is a [sandboxes.Provider]. It is safe for concurrent use.
type Provider struct {
	*folder.Store
	engine *engine
	users  string // see [sandboxes.Info]
}

var _ sandboxes.Provider = (*Provider)(nil)

// New returns the sandboxes below config.Dir. What an earlier daemon left
// running is ended. That bubblewrap is missing or may not run is not New's
// error, but Info's and Create's.
func New(config Config) (*Provider, error) {
	dir, err := filepath.Abs(config.Dir)
	if err != nil {
		return nil, fsys.Wrap(fsys.Invalid, "the folder for sandboxes", err)
	}
	e := &engine{
		program: config.Program, helper: config.Helper, systems: config.Images, root: os.Geteuid() == 0,
		images: &images{dir},
	}
	if e.program == "" {
		e.program = "bwrap"
	}
	sum := sha256.Sum256([]byte(dir))
	e.groups = cgroup.Find("agent9-" + hex.EncodeToString(sum[:4]))
	store, err := folder.New(folder.Config{Dir: dir, Owner: e.owners(config.Users)}, e)
	if err != nil {
		return nil, err
	}
	e.scratch, e.drop = store.Scratch, store.Drop
	p := &Provider{Store: store, engine: e, users: "one"}
	if e.root && config.Users != nil {
		p.users = "each"
	}
	if _, err := p.List(context.Background()); err != nil { // ends what goes on
		return nil, err
	}
	e.groups.Sweep()
	entries, _ := os.ReadDir(dir)
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), halfImage) {
			p.Drop(filepath.Join(dir, entry.Name()))
		}
	}
	return p, nil
}

// Info says whether sandboxes can be made, by making one.
func (p *Provider) Info(ctx context.Context) (sandboxes.Info, error) {
	c, err := p.engine.choose(ctx)
	if err != nil {
		return sandboxes.Info{}, err
	}
	info := sandboxes.Info{
		Driver: "bwrap", Version: c.version, Arch: runtime.GOARCH, Isolated: true, Enforced: p.engine.enforces(),
		Disk: c.disk, Users: p.users, Paths: c.paths, Network: "host", Left: p.Left(),
	}
	if launch.Scopes() {
		info.Network = "scoped"
	}
	if len(p.engine.systems) > 0 {
		info.DefaultImage = thisMachine
	}
	return info, nil
}

// owners says who the sandboxes of an agent are on this machine, if the daemon
// is root; nil: they are the daemon's user.
func (e *engine) owners(users sandboxes.Users) func(context.Context, string) (*folder.Owner, error) {
	if !e.root {
		return nil
	}
	return func(ctx context.Context, agent string) (*folder.Owner, error) {
		if users == nil || agent == "" {
			return e.oldOwner(), nil
		}
		n, err := users.User(ctx, agent)
		return &folder.Owner{UID: n, GID: n}, err
	}
}

// Images lists the root file systems that the operator named.
func (p *Provider) Images(ctx context.Context) ([]sandboxes.Image, error) {
	var list []sandboxes.Image
	for _, name := range slices.Sorted(maps.Keys(p.engine.systems)) {
		info, err := os.Stat(p.engine.systems[name])
		if err != nil {
			continue // Create says what is wrong with it
		}
		size, err := sizeOf(ctx, p.engine.systems[name])
		if err != nil {
			return nil, err
		}
		list = append(list, sandboxes.Image{Name: name, Size: size, Created: info.ModTime()})
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

// Create makes a sandbox; see [sandboxes.Provider].
func (p *Provider) Create(ctx context.Context, spec sandboxes.Spec, progress func(string)) (sandboxes.Sandbox, error) {
	if err := p.engine.check(spec); err != nil {
		return nil, err
	}
	if _, err := p.engine.choose(ctx); err != nil {
		return nil, err
	}
	return p.Store.Create(ctx, spec, progress)
}
