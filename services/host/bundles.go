package host

import (
	"context"
	"strings"

	"agent9/fsys"
)

// bundles is the directory of what agents travel in:
//
//	<name>.tar  Message: a read makes the agent's bundle, and gives it. Write
//	            {"passphrase": …} first, on the same open file, for one with the
//	            private key and the secrets, sealed under it
//	new         Message: a bundle, and before it, if need be, a JSON object: name,
//	            mode (restore, clone), new_identity, passphrase. Reply: what was made
type bundles struct{ h *Host }

var _ fsys.Set = bundles{}

const bundleExt = ".tar"

func (s bundles) Walk(ctx context.Context, name string) (fsys.Node, error) {
	agent, ok := strings.CutSuffix(name, bundleExt)
	if !ok || fsys.CheckName(agent) != nil {
		return nil, fsys.NotExist
	}
	e, err := s.h.agents.entry(ctx, s.h.opts.Store, agent)
	if err != nil {
		return nil, err
	}
	return &packed{s.h, agent, e}, nil
}

func (s bundles) List(ctx context.Context) ([]fsys.Entry, error) {
	agents, err := s.h.agents.List(ctx)
	list := make([]fsys.Entry, len(agents))
	for i, a := range agents {
		list[i] = fsys.Entry{Name: a.Name + bundleExt, Node: &packed{s.h, a.Name, a.Node.(*home).entry}}
	}
	return list, err
}
