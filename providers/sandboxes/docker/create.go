package docker

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/network"

	"agent9/fsys"
	"agent9/providers/sandboxes"
)

// nobody is who the programs in a sandbox are, user and group.
const nobody = 65534

// places are where things are in a sandbox.
var places = sandboxes.Inside()

// attempts is how often Create makes things again that somebody removes
// meanwhile.
const attempts = 3

func (p *Provider) Create(ctx context.Context, spec sandboxes.Spec, progress func(string)) (sandboxes.Sandbox, error) {
	f, err := p.known(ctx)
	if err != nil {
		return nil, err
	}
	b, err := p.image(ctx, spec, progress)
	if err != nil {
		return nil, err
	}
	if err := p.networkFor(ctx, spec.Limits); err != nil {
		return nil, err
	}
	for range attempts - 1 {
		s, err := p.try(ctx, spec, f, b)
		if !errors.Is(err, errRemoved) {
			return s, err
		}
	}
	return p.try(ctx, spec, f, b)
}

// errRemoved is the end of a try for which something was made that was gone
// when it was needed.
var errRemoved = fsys.E(fsys.Busy, "part of the sandbox was removed from the container engine in the meantime")

func (p *Provider) try(ctx context.Context, spec sandboxes.Spec, f *facts, b base) (sandboxes.Sandbox, error) {
	image, err := p.prepared(ctx, b)
	if err != nil {
		return nil, err
	}
	if spec.Workspace != "" {
		release, err := p.claim(ctx, spec.Workspace)
		if err != nil {
			return nil, err
		}
		defer release()
	}
	mounts, err := p.mounts(ctx, spec, f, b, image)
	var s *sandbox
	if err == nil {
		s, err = p.create(ctx, p.inside(spec, f, image), p.outside(spec, f, mounts), func() bool {
			return !slices.ContainsFunc(mounts, func(m mount.Mount) bool { return m.ReadOnly && !p.made.has(m.Source) })
		})
	}
	if missing(err) {
		p.made.forget(image)
		return nil, errRemoved
	}
	if err != nil {
		return nil, p.fail("making the sandbox", err)
	}
	return s, nil
}

// create makes the container. If ctx ends it is removed again; and if good
// says so, for the engine makes volumes that it does not have, empty.
func (p *Provider) create(ctx context.Context, config *container.Config, host *container.HostConfig, good func() bool) (*sandbox, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	longer, done := outliving(ctx)
	defer done()
	s := p.sandbox("agent9-" + random())
	_, err := p.api.ContainerCreate(longer, config, host, &network.NetworkingConfig{}, nil, s.id)
	switch {
	case err != nil:
	case ctx.Err() != nil:
		err = ctx.Err()
	case !good():
		err = errRemoved
	default:
		return s, nil
	}
	if gone := s.Remove(longer); gone != nil {
		return nil, gone
	}
	return nil, err
}

// networkFor checks that there is a network if one is asked for: without one,
// some engines silently give none.
func (p *Provider) networkFor(ctx context.Context, limits sandboxes.Limits) error {
	if !limits.Network {
		return nil
	}
	_, err := p.api.NetworkInspect(ctx, p.config.Network, network.InspectOptions{})
	if missing(err) {
		return fsys.E(fsys.Invalid, "this container engine has no network "+p.config.Network+" for sandboxes")
	}
	return p.fail("looking for the network "+p.config.Network, err)
}

// mounts are the volumes of a sandbox of image, which is made of b.
func (p *Provider) mounts(ctx context.Context, spec sandboxes.Spec, f *facts, b base, image string) ([]mount.Mount, error) {
	limit := spec.Limits.Disk
	if !f.quota {
		limit = 0
	}
	workspace := p.workspace(spec.Workspace, limit)
	mounts := []mount.Mount{workspace}
	if len(spec.Skills) > 0 {
		name, err := p.skills(ctx, image, spec.Skills)
		if err != nil {
			return nil, err
		}
		if spec.Workspace != "" {
			if err := p.room(ctx, image, workspace); err != nil {
				return nil, err
			}
		}
		v := p.volume(name, labelSkills, places.Skills)
		v.ReadOnly, v.VolumeOptions.NoCopy = true, true
		mounts = append(mounts, v)
	}
	for _, where := range b.volumes {
		if slices.Contains([]string{places.Workspace, places.Skills, places.Tmp, path.Dir(places.Socket)}, where) {
			continue
		}
		v, err := p.declared(ctx, b, image, where)
		if err != nil {
			return nil, err
		}
		mounts = append(mounts, v)
	}
	return mounts, nil
}

// inside is what the container is to the programs in it.
func (p *Provider) inside(spec sandboxes.Spec, f *facts, image string) *container.Config {
	zero := 0
	setup := sandboxes.Setup{Where: places}
	if len(spec.Skills) == 0 {
		setup.Where.Skills = ""
	}
	if !f.quota {
		setup.Disk = spec.Limits.Disk
	}
	return &container.Config{
		Image:        image,
		Entrypoint:   setup.Argv(places.Helper),
		Hostname:     "sandbox",
		User:         fmt.Sprintf("%d:%d", nobody, nobody),
		WorkingDir:   places.Workspace,
		OpenStdin:    true,
		StdinOnce:    true,
		AttachStdin:  true,
		AttachStdout: true,
		AttachStderr: true,
		Healthcheck:  &container.HealthConfig{Test: []string{"NONE"}},
		StopSignal:   "SIGKILL",
		StopTimeout:  &zero,
		Labels:       map[string]string{labelOwner: p.config.Owner, labelName: spec.Name},
	}
}

// outside is what the container may take of the engine.
func (p *Provider) outside(spec sandboxes.Spec, f *facts, mounts []mount.Mount) *container.HostConfig {
	l := spec.Limits
	host := &container.HostConfig{
		NetworkMode:    "none",
		IpcMode:        container.IPCModePrivate,
		ReadonlyRootfs: true,
		CapDrop:        []string{"ALL"},
		SecurityOpt:    []string{"no-new-privileges"},
		LogConfig:      container.LogConfig{Type: "none"},
		OomScoreAdj:    200,
		Mounts:         mounts,
		Tmpfs: map[string]string{
			places.Tmp:              fmt.Sprintf("rw,exec,nosuid,nodev,mode=1777,size=%d", tmpSize(l)),
			path.Dir(places.Socket): fmt.Sprintf("rw,noexec,nosuid,nodev,mode=0700,uid=%d,gid=%d,size=1m", nobody, nobody),
		},
		Resources: container.Resources{
			Memory:     l.Memory,
			MemorySwap: l.Memory,
			Ulimits: []*container.Ulimit{
				{Name: "core", Soft: 0, Hard: 0},
			},
		},
	}
	if l.Network {
		host.NetworkMode = container.NetworkMode(p.config.Network)
	}
	if l.PIDs > 0 {
		pids := l.PIDs + boxPIDs
		host.PidsLimit = &pids
	}
	if l.CPUs < f.cpus*1000 {
		host.NanoCPUs = l.CPUs * 1e6
	}
	if l.Disk > 0 {
		host.Ulimits = append(host.Ulimits, &container.Ulimit{Name: "fsize", Soft: l.Disk, Hard: l.Disk})
	}
	return host
}

// boxPIDs is how many threads the box may need, besides what a sandbox may have.
const boxPIDs = 48

// tmpSize is how much /tmp may have: it takes from the memory limit, and a
// program that fills it is better told so than killed.
func tmpSize(l sandboxes.Limits) int64 {
	size := int64(1 << 30)
	if l.Memory > 0 {
		size = l.Memory / 2
	}
	if l.Disk > 0 {
		size = min(size, l.Disk)
	}
	return size
}
