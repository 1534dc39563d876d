package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"agent9/fsys"
	"agent9/providers/models"
)

// Config says which server a driver asks, and how.
type Config struct {
	// BaseURL is where the API is; empty is the vendor's, if there is one.
	BaseURL string
	// Account is for APIs that have one in their paths.
	Account string
	// Key is sent with every request; empty sends none.
	Key string
	// KeyName is what the user calls the key, such as OPENAI_API_KEY, for
	// messages about it; empty is the driver's name for it.
	KeyName string
	// Free says that the work costs nothing.
	Free bool
	// Kinds are the kinds of work that the server does; nil is all that the
	// driver can do.
	Kinds []models.Kind
}

// A Driver is what is known of an API.
type Driver struct {
	Name    string
	BaseURL string                   // of the vendor
	Example string                   // a BaseURL, if there is no vendor
	Path    string                   // of the API, for a BaseURL that has none
	Target  func(base string) string // where requests go; nil is BaseURL
	KeyName string
	Kinds   []models.Kind
}

// Work answers requests, by their kind: each has its request and emits its answer
// by the Stream that it is given.
type Work map[models.Kind]func(context.Context, *Stream) (models.Usage, error)

// A Provider is what all providers behind HTTP have in common: a driver embeds
// it, says what to do for each kind of work, and lists the models.
type Provider struct {
	API
	// Work is what the driver does.
	Work Work

	info models.Info
}

// Open returns a Provider that does not do any work yet. It does not ask the
// server.
func Open(c Config, d Driver) (*Provider, error) {
	u, err := Base(cmp.Or(c.BaseURL, d.BaseURL), d.Path, d.Name, cmp.Or(d.BaseURL, d.Example))
	if err != nil {
		return nil, err
	}
	target := u.String()
	if d.Target != nil {
		target = d.Target(target)
	}
	if c.Kinds == nil {
		c.Kinds = d.Kinds
	}
	return &Provider{
		API:  API{Target: target, Key: c.Key, KeyName: cmp.Or(c.KeyName, d.KeyName), Client: Client()},
		info: models.Info{Driver: d.Name, Target: target, Kinds: slices.Clone(c.Kinds), Free: c.Free},
	}, nil
}

func (p *Provider) Info() models.Info { return p.info }

func (p *Provider) Run(ctx context.Context, req models.Request, emit func(models.Chunk) error) (models.Usage, error) {
	work := p.Work[req.Kind]
	if work == nil || !slices.Contains(p.info.Kinds, req.Kind) {
		return models.Usage{}, fsys.E(fsys.Unsupported, "this provider cannot do "+string(req.Kind))
	}
	return work(ctx, &Stream{Req: req, Emit: emit, api: &p.API})
}

// List asks path for the server's list of models and returns what read makes of
// it, each name once. A list of none is of any name, as the server may load what
// it is asked for.
func List[T any](ctx context.Context, a *API, path string, read func(T) []models.Model) ([]models.Model, error) {
	res, err := a.Get(ctx, path)
	if err != nil {
		return nil, err
	}
	raw, err := a.Body(ctx, res)
	if err != nil {
		return nil, err
	}
	var list T
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, NotAnAnswer(err)
	}
	all := []models.Model{}
	for _, m := range read(list) {
		if m.Name != "" && !slices.ContainsFunc(all, func(o models.Model) bool { return o.Name == m.Name }) {
			all = append(all, m)
		}
	}
	if len(all) == 0 {
		all = append(all, models.Model{Name: "*"})
	}
	return all, nil
}
