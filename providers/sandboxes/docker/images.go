package docker

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/distribution/reference"
	"github.com/docker/docker/api/types/image"

	"agent9/fsys"
	"agent9/providers/sandboxes"
)

// Images lists the images that have a name, under each of their names. Those
// that sandboxes are made of, one layer above, are not among them.
func (p *Provider) Images(ctx context.Context) ([]sandboxes.Image, error) {
	all, err := p.api.ImageList(ctx, image.ListOptions{})
	if err != nil {
		return nil, p.fail("listing the images", err)
	}
	images := []sandboxes.Image{}
	for _, i := range all {
		if i.Labels[labelBase] != "" {
			continue
		}
		for _, tag := range i.RepoTags {
			if tag != "<none>:<none>" {
				images = append(images, sandboxes.Image{Name: tag, Size: i.Size, Created: time.Unix(i.Created, 0).UTC()})
			}
		}
	}
	slices.SortFunc(images, func(a, b sandboxes.Image) int { return strings.Compare(a.Name, b.Name) })
	return images, nil
}

// base is an image to make sandboxes of.
type base struct {
	id      string
	volumes []string // that it declares
}

// image finds the image of a Spec, and pulls it if it has to and may.
func (p *Provider) image(ctx context.Context, spec sandboxes.Spec, progress func(string)) (base, error) {
	name := spec.Image
	if name == "" {
		name = p.config.DefaultImage
	}
	if _, err := reference.ParseAnyReference(name); err != nil {
		return base{}, fsys.E(fsys.Invalid, name+" cannot be the name of an image: "+err.Error())
	}
	found, err := p.api.ImageInspect(ctx, name)
	if missing(err) {
		if !spec.Pull {
			return base{}, fsys.Wrap(fsys.NotExist, "the image "+name, sandboxes.ErrNotPulled)
		}
		if err := p.pull(ctx, name, progress); err != nil {
			return base{}, err
		}
		found, err = p.api.ImageInspect(ctx, name)
	}
	if err != nil {
		return base{}, p.fail("the image "+name, err)
	}
	b := base{id: found.ID}
	if found.Config != nil {
		for path := range found.Config.Volumes {
			b.volumes = append(b.volumes, path)
		}
	}
	slices.Sort(b.volumes)
	return b, nil
}
