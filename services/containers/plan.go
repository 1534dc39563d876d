package containers

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"agent9/fsys"
	"agent9/namespace/budget"
	"agent9/providers/sandboxes"
)

// plan is where a request is done, and what that may cost.
type plan struct {
	req    request
	runner *sandboxes.Runner
	image  string
	// gitImage is where git is given a secret.
	gitImage string
	limits   Limits
	network  bool
	spec     sandboxes.Limits // those of them that hold
	price    price
	max      budget.Micros
	policy   Policy
}

// plan decides where sub is done, and refuses what may not be.
func (s *Service) plan(ctx context.Context, p Policy, sub *submission) (plan, error) {
	pl := plan{req: sub.req, policy: p}
	var err error
	if pl.runner, err = s.choose(p, sub.req.Provider); err != nil {
		return plan{}, err
	}
	if pl.limits, pl.network, err = p.limitsFor(&sub.req); err != nil {
		return plan{}, err
	}
	info, err := s.infoLately(ctx, pl.runner)
	if err != nil {
		return plan{}, err
	}
	if pl.spec, err = pl.enforced(info); err != nil {
		return plan{}, err
	}
	if pl.image, err = p.imageFor(sub.req.Image, info); err != nil {
		return plan{}, err
	}
	if r := sub.req.Repo; r != nil && r.Auth != nil {
		if pl.gitImage, err = p.imageForGit(pl.image, info); err != nil {
			return plan{}, err
		}
	}
	pl.price = p.price(pl.limits)
	if pl.max, err = pl.worth(); err != nil {
		return plan{}, err
	}
	return pl, nil
}

// choose returns the provider that is asked for, or the default one.
func (s *Service) choose(p Policy, id string) (*sandboxes.Runner, error) {
	if id == "" {
		id = p.Provider
	}
	for _, r := range s.config.Providers {
		ok := allowed(p.AllowProviders, p.BlockProviders, r.ID())
		switch {
		case id == "" && ok:
			return r, nil
		case id == r.ID() && ok:
			return r, nil
		case id == r.ID():
			return nil, fsys.E(fsys.Permission, "the policy does not allow the provider "+id)
		}
	}
	switch {
	case len(s.config.Providers) == 0:
		return nil, fsys.E(fsys.Unavailable, "there is nothing here that can make sandboxes, and the log of agentd says why; see agentd --help, under SANDBOXES")
	case id == "":
		return nil, fsys.E(fsys.Permission, "the policy allows none of the providers")
	}
	return nil, fsys.E(fsys.NotExist, s.config.Providers.None(id))
}

// askTimeout is how long a provider may take to say what it is.
const askTimeout = 10 * time.Second

// infoFresh is how long what a provider said of itself is good enough for a
// plan. Whether it can be used shows when it is.
const infoFresh = time.Minute

// lately is what a provider said of itself.
type lately struct {
	info sandboxes.Info
	at   time.Time
}

// infoLately is info, or what it was in the last minute.
func (s *Service) infoLately(ctx context.Context, r *sandboxes.Runner) (sandboxes.Info, error) {
	s.mu.Lock()
	l, ok := s.infos[r.ID()]
	s.mu.Unlock()
	if ok && time.Since(l.at) < infoFresh {
		return l.info, nil
	}
	info, err := s.info(ctx, r)
	if err == nil {
		s.mu.Lock()
		s.infos[r.ID()] = lately{info, time.Now()}
		s.mu.Unlock()
	}
	return info, err
}

func (s *Service) info(ctx context.Context, r *sandboxes.Runner) (sandboxes.Info, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, askTimeout, fsys.E(fsys.Timeout, "the provider "+r.ID()+" does not answer"))
	defer cancel()
	info, err := r.Info(ctx)
	return info, fsys.Wrap(fsys.Unavailable, "the provider "+r.ID(), err)
}

// limitsFor is what r may use.
func (p *Policy) limitsFor(r *request) (Limits, bool, error) {
	l := p.Limits
	for _, f := range []struct {
		name  string
		asked *int64
		into  *int64
		most  int64
	}{
		{"time_s", r.Limits.Time, &l.Time, p.MaxLimits.Time},
		{"memory_mb", r.Limits.Memory, &l.Memory, p.MaxLimits.Memory},
		{"disk_mb", r.Limits.Disk, &l.Disk, p.MaxLimits.Disk},
		{"cpus (in thousandths)", (*int64)(r.Limits.CPUs), (*int64)(&l.CPUs), int64(p.MaxLimits.CPUs)},
		{"pids", r.Limits.PIDs, &l.PIDs, p.MaxLimits.PIDs},
	} {
		if f.asked == nil {
			continue
		}
		if *f.asked < 1 || *f.asked > f.most {
			return Limits{}, false, fsys.E(fsys.Invalid, fmt.Sprintf("limits: %s is from 1 to %d here, not %d", f.name, f.most, *f.asked))
		}
		*f.into = *f.asked
	}
	for i := range r.Commands {
		if err := checkTime(r.Commands[i].Time, l); err != nil {
			return Limits{}, false, fsys.Wrap(fsys.Invalid, fmt.Sprintf("command %d", i+1), err)
		}
	}
	network := r.Limits.Network != nil && *r.Limits.Network
	if network && !p.Network {
		return Limits{}, false, fsys.E(fsys.Permission, "the policy allows no network")
	}
	return l, network, nil
}

// checkTime refuses a command that asks for more time than it can have.
func checkTime(time int64, l Limits) error {
	if time > l.Time {
		return fsys.E(fsys.Invalid, fmt.Sprintf("time_s is up to that of the session, which is %d, not %d", l.Time, time))
	}
	return nil
}

// enforced returns the limits of pl that the provider can enforce, or refuses
// it: see [Policy].RequireLimits.
func (pl *plan) enforced(info sandboxes.Info) (sandboxes.Limits, error) {
	asked := pl.req.Limits
	spec := sandboxes.Limits{Network: pl.network}
	var lacks []string
	for _, f := range []struct {
		name  string
		asked bool
		into  *int64
		value int64
	}{
		{"memory", asked.Memory != nil, &spec.Memory, pl.limits.Memory << 20},
		{"disk", asked.Disk != nil, &spec.Disk, pl.limits.Disk << 20},
		{"cpus", asked.CPUs != nil, &spec.CPUs, int64(pl.limits.CPUs)},
		{"pids", asked.PIDs != nil, &spec.PIDs, pl.limits.PIDs},
		{"network", info.Isolated && !pl.network, new(int64), 0},
	} {
		switch {
		case slices.Contains(info.Enforced, f.name):
			*f.into = f.value
		case pl.policy.RequireLimits == requireAll, pl.policy.RequireLimits == requireAsked && f.asked && info.Isolated:
			lacks = append(lacks, f.name)
		}
	}
	if len(lacks) > 0 {
		return spec, fsys.E(fsys.Invalid, fmt.Sprintf("the provider %s cannot enforce the limit of %s; leave it out, or use another provider", pl.runner.ID(), strings.Join(lacks, ", ")))
	}
	return spec, nil
}

// imageFor is the image that a request for image gets, if it may.
func (p *Policy) imageFor(image string, info sandboxes.Info) (string, error) {
	if image == "" {
		image = p.DefaultImage
	}
	if image == "" {
		image = info.DefaultImage
	}
	if image != "" && !allowed(p.AllowImages, p.BlockImages, imageNames(image)...) {
		return "", fsys.E(fsys.Permission, "the policy does not allow the image "+image)
	}
	return image, nil
}

// imageForGit is the image whose git is given a secret in a session of image:
// one that the operator knows. What a glob allows may be anybody's.
func (p *Policy) imageForGit(image string, info sandboxes.Info) (string, error) {
	named := func(allowed string) bool {
		return !strings.ContainsAny(allowed, `*?[\`) && slices.Contains(imageNames(image), allowed)
	}
	switch {
	case p.GitImage != "":
		return p.GitImage, nil
	case len(p.AllowImages) == 0, image == p.DefaultImage, image == info.DefaultImage, slices.ContainsFunc(p.AllowImages, named):
		return image, nil
	}
	return "", fsys.E(fsys.Permission, fmt.Sprintf("repo: only a glob of allow_images allows the image %s, so that its git is given no secret: "+
		"the operator names an image for that, as git_image in containers/policy", image))
}

// worth is what is held for pl.
func (pl *plan) worth() (budget.Micros, error) {
	longest := seconds(pl.policy.MaxLife)
	if !pl.req.Keep {
		var sum int64
		if pl.req.Repo != nil {
			sum = pl.limits.Time
		}
		for i := range pl.req.Commands {
			sum += pl.timeOf(&pl.req.Commands[i])
		}
		longest = min(longest, seconds(sum+spare))
	}
	least := pl.price.cost(time.Second)
	switch asked := pl.req.MaxCost; {
	case asked != nil && pl.namesTime() && *asked < pl.price.cost(longest):
		return 0, fsys.E(fsys.Exhausted, fmt.Sprintf("the session may take %d seconds, which cost %s, and max_cost_microusd allows %s; allow it more, or less time", int64(longest.Seconds()), pl.price.cost(longest).Dollars(), asked.Dollars()))
	case asked != nil && *asked < least:
		return 0, fsys.E(fsys.Exhausted, fmt.Sprintf("a session of one second costs %s, which is more than max_cost_microusd", least.Dollars()))
	case asked != nil:
		return *asked, nil
	}
	return min(pl.price.cost(longest), max(pl.policy.DefaultMaxCost, least)), nil
}

// namesTime reports whether the request says of all of its commands how long
// they may take; else it takes as long as its money lasts.
func (pl *plan) namesTime() bool {
	if pl.req.Keep || pl.req.Limits.Time != nil {
		return !pl.req.Keep
	}
	return pl.req.Repo == nil && len(pl.req.Commands) > 0 && !slices.ContainsFunc(pl.req.Commands, func(c command) bool { return c.Time == 0 })
}

// spare is how many seconds a session may take besides its commands.
const spare = 30

// timeOf is how many seconds c may take.
func (pl *plan) timeOf(c *command) int64 {
	if c.Time > 0 {
		return c.Time
	}
	return pl.limits.Time
}
