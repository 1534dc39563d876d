package docker

import (
	"context"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"

	"agent9/fsys"
	"agent9/providers/sandboxes"
)

// helper finds the helper for an architecture, once: a daemon keeps to the one
// that it began with.
func (p *Provider) helper(arch string) (sandboxes.Helper, error) {
	p.mu.Lock()
	h, ok := p.helpers[arch]
	p.mu.Unlock()
	if ok {
		return h, nil
	}
	h, err := p.config.Helper(arch)
	if err != nil {
		return h, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.helpers[arch] = h
	return h, nil
}

// prepared returns the image that sandboxes of b are made of, and makes it if
// nobody has: b, the helper, and a directory whose owner a new volume at
// /workspace takes over.
func (p *Provider) prepared(ctx context.Context, b base) (string, error) {
	f, err := p.known(ctx)
	if err != nil {
		return "", err
	}
	h, err := p.helper(f.arch)
	if err != nil {
		return "", err
	}
	name := "agent9-box:" + sum(p.config.Owner, b.id, h.Hash)
	err = p.made.make(ctx, name, func() error {
		if _, err := p.api.ImageInspect(ctx, name); !missing(err) {
			return err
		}
		return p.prepare(ctx, b, h, name)
	})
	return name, p.fail("preparing the image", err)
}

func (p *Provider) prepare(ctx context.Context, b base, h sandboxes.Helper, name string) error {
	program, err := os.ReadFile(h.Path)
	if err != nil {
		return fsys.Wrap(fsys.Unavailable, "the helper for sandboxes", err)
	}
	a := newArchive()
	for _, add := range []func() error{
		func() error { return a.dir(inTar(path.Dir(places.Helper)), 0o755, 0) },
		func() error { return a.file(inTar(places.Helper), 0o755, program) },
		func() error { return a.dir(inTar(places.Workspace), 0o700, nobody) },
	} {
		if err := add(); err != nil {
			return err
		}
	}
	return p.withHand(ctx, b.id, nil, func(ctx context.Context, hand string) error {
		if err := p.put(ctx, hand, "/", a); err != nil {
			return err
		}
		_, err := p.api.ContainerCommit(ctx, hand, container.CommitOptions{
			Reference: name,
			Comment:   "to make sandboxes of",
			Changes: []string{
				"LABEL " + labelOwner + "=" + strconv.Quote(p.config.Owner),
				"LABEL " + labelBase + "=" + b.id,
				"LABEL " + labelHelper + "=" + h.Hash,
			},
		})
		return err
	})
}

// inTar is an absolute path as an archive has it.
func inTar(p string) string { return strings.TrimPrefix(p, "/") }

// tidyImages removes the prepared images of this owner whose base or helper is
// no more. One that a container is made of stays.
func (p *Provider) tidyImages(ctx context.Context) error {
	f, err := p.known(ctx)
	if err != nil {
		return err
	}
	h, err := p.helper(f.arch)
	if err != nil {
		return err
	}
	all, err := p.api.ImageList(ctx, image.ListOptions{Filters: p.owned()})
	if err != nil {
		return p.fail("listing the images", err)
	}
	for _, i := range all {
		if i.Labels[labelBase] == "" {
			continue
		}
		name := i.ID
		if len(i.RepoTags) > 0 {
			name = i.RepoTags[0]
		}
		if i.Labels[labelHelper] == h.Hash && p.named(ctx, i.Labels[labelBase]) {
			continue
		}
		p.made.forget(name)
		_, err := p.api.ImageRemove(ctx, name, image.RemoveOptions{PruneChildren: true})
		if err != nil && !missing(err) && !conflict(err) {
			return p.fail("removing an image", err)
		}
	}
	return nil
}

// named reports whether an image still has a name; if in doubt it has.
func (p *Provider) named(ctx context.Context, id string) bool {
	found, err := p.api.ImageInspect(ctx, id)
	if err != nil {
		return !missing(err)
	}
	return len(found.RepoTags)+len(found.RepoDigests) > 0
}

// owned selects what is this owner's.
func (p *Provider) owned(more ...filters.KeyValuePair) filters.Args {
	return filters.NewArgs(append(more, filters.Arg("label", labelOwner+"="+p.config.Owner))...)
}
