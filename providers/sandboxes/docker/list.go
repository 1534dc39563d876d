package docker

import (
	"context"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"

	"agent9/providers/sandboxes"
)

// List also removes what earlier runs of the program left unfinished, and what
// is used no more: hands, volumes of skills, and images that sandboxes were
// made of.
func (p *Provider) List(ctx context.Context) ([]sandboxes.Found, error) {
	if err := p.tidy(ctx); err != nil {
		return nil, err
	}
	all, err := p.api.ContainerList(ctx, container.ListOptions{All: true, Filters: p.owned()})
	if err != nil {
		return nil, p.fail("listing the sandboxes", err)
	}
	found := []sandboxes.Found{}
	for _, c := range all {
		if len(c.Names) == 0 { // being removed
			continue
		}
		found = append(found, sandboxes.Found{
			ID:      strings.TrimPrefix(c.Names[0], "/"),
			Name:    c.Labels[labelName],
			Running: c.State == container.StateRunning,
		})
	}
	return found, nil
}

func (p *Provider) tidy(ctx context.Context) error {
	for _, tidy := range []func(context.Context) error{p.tidyHands, p.tidyVolumes, p.tidyImages} {
		if err := tidy(ctx); err != nil {
			return err
		}
	}
	return nil
}

// tidyHands removes the hands that this program does not use.
func (p *Provider) tidyHands(ctx context.Context) error {
	all, err := p.api.ContainerList(ctx, container.ListOptions{All: true,
		Filters: filters.NewArgs(filters.Arg("name", "^/"+p.handPrefix()))})
	if err != nil {
		return p.fail("listing the containers", err)
	}
	for _, c := range all {
		if len(c.Names) == 0 || p.made.has(strings.TrimPrefix(c.Names[0], "/")) {
			continue
		}
		err := p.api.ContainerRemove(ctx, c.ID, container.RemoveOptions{Force: true, RemoveVolumes: true})
		if err != nil && !missing(err) && !conflict(err) {
			return p.fail("removing a container", err)
		}
	}
	return nil
}
