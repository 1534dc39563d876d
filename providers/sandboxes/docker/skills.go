package docker

import (
	"bytes"
	"context"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/mount"

	"agent9/fsys"
	"agent9/providers/sandboxes"
)

// skills returns the volume that has these files. Sandboxes with the same files
// share it.
func (p *Provider) skills(ctx context.Context, image string, files []sandboxes.File) (string, error) {
	parts := []string{p.config.Owner}
	for _, f := range files {
		parts = append(parts, f.Name, string(f.Data))
	}
	name := "agent9-skills-" + sum(parts...)
	return name, p.filled(ctx, name, func() error {
		a, err := skillsArchive(files)
		if err != nil {
			return err
		}
		if err := p.tidyVolumes(ctx); err != nil { // skills as they were before
			return err
		}
		v := p.volume(name, labelSkills, fillDir)
		v.VolumeOptions.NoCopy = true
		return p.withHand(ctx, image, []mount.Mount{v}, func(ctx context.Context, hand string) error {
			return p.put(ctx, hand, fillDir, a)
		})
	})
}

// room makes sure that the skills can be at their place in a workspace that
// persists: a link there, which a program may have left, would lead them
// elsewhere.
func (p *Provider) room(ctx context.Context, image string, workspace mount.Mount) error {
	name := path.Base(places.Skills)
	workspace.Target = fillDir
	err := p.withHand(ctx, image, []mount.Mount{workspace}, func(ctx context.Context, hand string) error {
		there, err := p.api.ContainerStatPath(ctx, hand, path.Join(fillDir, name))
		switch {
		case missing(err), err == nil && there.Mode.IsDir():
			return nil
		case err != nil:
			return err
		case there.Mode&fs.ModeSymlink == 0:
			return fsys.E(fsys.Exist, "the workspace has a file "+name+" where the agent's skills belong; rename it")
		}
		a := newArchive()
		if err := a.dir(name, 0o755, 0); err != nil {
			return err
		}
		return p.put(ctx, hand, fillDir, a)
	})
	return p.fail("making room for the skills", err)
}

// skillsArchive has the files, and the directories that they are in.
func skillsArchive(files []sandboxes.File) (*archive, error) {
	a := newArchive()
	files = slices.Clone(files)
	slices.SortFunc(files, func(x, y sandboxes.File) int { return strings.Compare(x.Name, y.Name) })
	dirs := map[string]bool{".": true}
	for _, f := range files {
		if !fs.ValidPath(f.Name) || f.Name == "." {
			return nil, fsys.E(fsys.Invalid, "a skill cannot be called "+f.Name)
		}
		if err := a.parents(path.Dir(f.Name), dirs); err != nil {
			return nil, err
		}
		mode := int64(0o444)
		if bytes.HasPrefix(f.Data, []byte("#!")) {
			mode = 0o555
		}
		if err := a.file(f.Name, mode, f.Data); err != nil {
			return nil, fsys.Wrap(fsys.Invalid, "the skill "+f.Name, err)
		}
	}
	return a, nil
}

// parents adds dir and those above it, unless they are in seen.
func (a *archive) parents(dir string, seen map[string]bool) error {
	if seen[dir] {
		return nil
	}
	seen[dir] = true
	if err := a.parents(path.Dir(dir), seen); err != nil {
		return err
	}
	return a.dir(dir, 0o755, 0)
}
