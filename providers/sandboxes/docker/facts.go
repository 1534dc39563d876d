package docker

import (
	"context"

	"github.com/docker/docker/api/types/volume"
	"github.com/docker/docker/client"

	"agent9/fsys"
	"agent9/providers/sandboxes"
)

// facts are what an engine is and can do.
type facts struct {
	version string
	arch    string // GOARCH
	cpus    int64
	memory  bool // limits hold
	quota   bool // volumes can have a size
	cfs     bool
	pids    bool
}

// disk says how the limit of the disk is kept; see [sandboxes.Info].
func (f *facts) disk() string {
	if f.quota {
		return "quota"
	}
	return "walk"
}

// Info says what the engine is and which limits it holds, as of now.
func (p *Provider) Info(ctx context.Context) (sandboxes.Info, error) {
	f, err := p.ask(ctx)
	if err != nil {
		return sandboxes.Info{}, err
	}
	info := sandboxes.Info{
		Driver:       "docker",
		Version:      f.version,
		Arch:         f.arch,
		DefaultImage: p.config.DefaultImage,
		Isolated:     true,
		Enforced:     []string{"network", "disk"},
		Disk:         f.disk(),
		Users:        "one",
		Paths:        "engine",
		Network:      "own",
	}
	for _, limit := range []struct {
		name  string
		holds bool
	}{{"memory", f.memory}, {"cpus", f.cfs}, {"pids", f.pids}} {
		if limit.holds {
			info.Enforced = append(info.Enforced, limit.name)
		}
	}
	return info, nil
}

// known returns the facts, and asks for them if nobody has.
func (p *Provider) known(ctx context.Context) (*facts, error) {
	p.mu.Lock()
	f := p.facts
	p.mu.Unlock()
	if f != nil {
		return f, nil
	}
	return p.ask(ctx)
}

func (p *Provider) ask(ctx context.Context) (*facts, error) {
	version, err := p.api.ServerVersion(ctx)
	if err != nil {
		return nil, p.fail("asking the container engine", err)
	}
	info, err := p.api.Info(ctx)
	if err != nil {
		return nil, p.fail("asking the container engine", err)
	}
	if info.OSType != "linux" {
		return nil, fsys.E(fsys.Unsupported, "this container engine runs "+info.OSType+" containers, and sandboxes need linux")
	}
	f := &facts{
		version: version.Version,
		arch:    version.Arch,
		cpus:    int64(info.NCPU),
		memory:  info.MemoryLimit,
		cfs:     info.CPUCfsPeriod && info.CPUCfsQuota,
		pids:    info.PidsLimit,
	}
	p.mu.Lock()
	before := p.facts
	p.mu.Unlock()
	if before != nil {
		f.quota = before.quota
	} else if f.quota, err = p.quota(ctx); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.facts = f
	return f, nil
}

// quota tries whether a volume can have a size: no field of the API tells.
func (p *Provider) quota(ctx context.Context) (bool, error) {
	name := "agent9-quota-" + random()
	ctx, done := outliving(ctx)
	defer done()
	_, err := p.api.VolumeCreate(ctx, volume.CreateOptions{
		Name:       name,
		Driver:     volumeDriver,
		DriverOpts: sized(1 << 20),
		Labels:     map[string]string{labelOwner: p.config.Owner},
	})
	if client.IsErrConnectionFailed(err) || ctx.Err() != nil {
		return false, p.fail("making a volume", err)
	}
	if err != nil {
		return false, nil
	}
	return true, p.fail("removing a volume", p.api.VolumeRemove(ctx, name, true))
}
