package models

import (
	"context"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"agent9/fsys"
)

// How long what a provider offers is remembered, a failure to tell, and how
// long a reader waits for it to tell.
const (
	catalogTTL     = 30 * time.Second
	catalogRetry   = 5 * time.Second
	catalogTimeout = 1500 * time.Millisecond
)

// A Catalog is what a provider said it offers.
type Catalog struct {
	Models  []Model   // as of the last time that it told
	Known   bool      // it did tell once
	Checked time.Time // the last time that it was asked, or worked
	Err     error     // why it did not tell, or work, then
}

// catalog keeps the last Catalog, so that looking at a tree does not hang on a
// server that is gone.
type catalog struct {
	turn fsys.Mutex // held by who asks the provider

	mu    sync.Mutex
	last  Catalog
	asked time.Time // when the provider was last asked for its models
}

func (c *catalog) get(now time.Time) (last Catalog, fresh bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	age := now.Sub(c.asked)
	return c.last, !c.asked.IsZero() && (age < catalogRetry || age < catalogTTL && c.last.Err == nil)
}

// ran notes how a run went, as far as it says something about the provider.
func (c *catalog) ran(err error) {
	if err != nil {
		switch fsys.CodeOf(err) {
		case fsys.Unavailable, fsys.Internal:
		default:
			return
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last.Err, c.last.Checked = err, time.Now()
}

// Catalog returns what the provider offers: what it said at most half a minute
// ago, else what it says within a second or two, else what it said last.
func (r *Runner) Catalog(ctx context.Context) Catalog {
	c := &r.catalog
	last, fresh := c.get(time.Now())
	if fresh {
		return last
	}
	if c.turn.Lock(ctx) != nil {
		return last
	}
	defer c.turn.Unlock()
	if last, fresh = c.get(time.Now()); fresh {
		return last
	}
	asking, cancel := context.WithTimeout(ctx, catalogTimeout)
	defer cancel()
	models, err := r.models(asking)
	if ctx.Err() != nil {
		return last
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = time.Now()
	c.last.Checked, c.last.Err = c.asked, err
	if err == nil {
		c.last.Models, c.last.Known = models, true
	}
	return c.last
}

func (r *Runner) models(ctx context.Context) (models []Model, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fsys.E(fsys.Internal, "the provider "+r.id+" crashed")
		}
	}()
	return r.provider.Models(ctx)
}

// Find returns the model that a request names: the one of that name, the one
// that has it up to a :tag, or the one whose name is "*".
func (c Catalog) Find(name string) (Model, bool) {
	base, _, _ := strings.Cut(name, ":")
	var found Model
	rank := 0
	for _, m := range c.Models {
		r := 0
		switch mbase, tag, _ := strings.Cut(m.Name, ":"); {
		case m.Name == name:
			r = 4
		case mbase == name && tag == "latest":
			r = 3
		case m.Name == base:
			r = 2
		case m.Name == "*":
			r = 1
		}
		if r > rank {
			found, rank = m, r
		}
	}
	if rank == 1 {
		found.Name = name
	}
	return found, rank > 0
}

// Match reports whether name matches a glob: * is any text, also with slashes.
func Match(glob, name string) bool {
	ok, err := path.Match(strings.ReplaceAll(glob, "/", "\x00"), strings.ReplaceAll(name, "/", "\x00"))
	return ok && err == nil
}

// Lists reports whether the provider names the model itself.
func (c Catalog) Lists(name string) bool {
	return name != "*" && slices.ContainsFunc(c.Models, func(m Model) bool { return m.Name == name })
}

// Named returns m under the name by which it was asked for.
func (m Model) Named(name string) Model {
	m.Name = name
	return m
}
