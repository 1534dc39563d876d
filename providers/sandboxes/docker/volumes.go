package docker

import (
	"context"
	"path"
	"strconv"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/volume"

	"agent9/fsys"
)

const volumeDriver = "local"

// sized are the options of a volume that the engine bounds.
func sized(size int64) map[string]string {
	return map[string]string{"size": strconv.FormatInt(size, 10)}
}

func local() *mount.Driver { return &mount.Driver{Name: volumeDriver} }

// labels are those of a volume: its owner's, and key with value.
func (p *Provider) labels(key, value string) map[string]string {
	return map[string]string{labelOwner: p.config.Owner, key: value}
}

// volume mounts the volume of that name, which is made by that if there is
// none.
func (p *Provider) volume(name, label, target string) mount.Mount {
	return mount.Mount{
		Type: mount.TypeVolume, Source: name, Target: target,
		VolumeOptions: &mount.VolumeOptions{Labels: p.labels(label, name), DriverConfig: local()},
	}
}

// fillDir is where a volume is while it is filled: below the helper's own
// directory, which every prepared image has.
var fillDir = path.Join(path.Dir(places.Helper), "fill")

// filled fills the volume of that name unless this program has done so before,
// and it is still there: what an earlier run left could be half of it.
func (p *Provider) filled(ctx context.Context, name string, fill func() error) error {
	if _, err := p.api.VolumeInspect(ctx, name); missing(err) {
		p.made.forget(name)
	} else if err != nil {
		return p.fail("looking for a volume", err)
	}
	return p.fail("filling a volume", p.made.make(ctx, name, fill))
}

// declared mounts what b has at a place that it declares a volume: read-only,
// as the rest of it. Sandboxes of one image share it.
func (p *Provider) declared(ctx context.Context, b base, image, target string) (mount.Mount, error) {
	v := p.volume("agent9-image-"+sum(p.config.Owner, b.id, target), labelBase, target)
	err := p.filled(ctx, v.Source, func() error { // the engine copies into a new volume
		return p.withHand(ctx, image, []mount.Mount{v}, func(context.Context, string) error { return nil })
	})
	v.ReadOnly = true
	return v, err
}

// workspaceVolume is the volume of a workspace that persists.
func (p *Provider) workspaceVolume(name string) string {
	return "agent9-workspace-" + sum(p.config.Owner, name)
}

// workspace mounts the volume at /workspace, which is made by that if there is
// none yet: the one of the name, or with an empty name one that goes with its
// container. The limit holds for a volume that this makes.
func (p *Provider) workspace(name string, limit int64) mount.Mount {
	m := mount.Mount{
		Type: mount.TypeVolume, Target: places.Workspace,
		VolumeOptions: &mount.VolumeOptions{Labels: p.labels(labelWorkspace, name), DriverConfig: local()},
	}
	if name != "" {
		m.Source = p.workspaceVolume(name)
	}
	if limit > 0 {
		m.VolumeOptions.DriverConfig.Options = sized(limit)
	}
	return m
}

// claim returns when no sandbox has the workspace and no other call makes one
// that will, until release is called; Busy if a sandbox has it.
func (p *Provider) claim(ctx context.Context, name string) (release func(), err error) {
	volume := p.workspaceVolume(name)
	release, err = p.made.hold(ctx, volume)
	if err != nil {
		return nil, err
	}
	users, err := p.api.ContainerList(ctx, container.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("volume", volume))})
	if err == nil && len(users) == 0 {
		return release, nil
	}
	release()
	if err != nil {
		return nil, p.fail("looking for who has the workspace", err)
	}
	return nil, fsys.E(fsys.Busy, "another sandbox uses the workspace "+name)
}

func (p *Provider) RemoveWorkspace(ctx context.Context, name string) error {
	err := p.api.VolumeRemove(ctx, p.workspaceVolume(name), false)
	switch {
	case missing(err):
		return nil
	case conflict(err):
		return fsys.E(fsys.Busy, "the workspace "+name+" is in use by a sandbox")
	}
	return p.fail("removing the workspace "+name, err)
}

// tidyVolumes removes the volumes of this owner that no container has, but for
// workspaces that persist. A Create that is about to use one makes it again.
func (p *Provider) tidyVolumes(ctx context.Context) error {
	all, err := p.api.VolumeList(ctx, volume.ListOptions{Filters: p.owned(filters.Arg("dangling", "true"))})
	if err != nil {
		return p.fail("listing the volumes", err)
	}
	for _, v := range all.Volumes {
		if v.Labels[labelWorkspace] != "" {
			continue
		}
		p.made.forget(v.Name)
		err := p.api.VolumeRemove(ctx, v.Name, false)
		if err != nil && !missing(err) && !conflict(err) {
			return p.fail("removing a volume", err)
		}
	}
	return nil
}
