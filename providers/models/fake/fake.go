// Package fake is a provider that does what the request tells it to, for tests
// of everything around a model. The last user message is a script of
// steps, separated by ';':
//
//	say TEXT           the answer grows by TEXT and a space
//	use IN OUT         the tokens that will be reported, and are with what follows
//	wait NAME          until [Provider.Open] of NAME, or the end of the run
//	fail CODE REASON   the run fails; CODE as in fsys.Code.String
//	call NAME ARGS     a tool is called
//	panic              the provider crashes
//	deaf NAME          wait, but without regard for the end of the run
//
// Any other step is said as it is.
package fake

import (
	"context"
	"strconv"
	"strings"
	"sync"

	"agent9/fsys"
	"agent9/providers/models"
)

// Provider is a scripted provider. The zero value is ready to use.
type Provider struct {
	// List is what there is to ask for; nil is one model called "fake".
	List []models.Model
	// About is what the provider says of itself; without a driver it is a
	// provider of chat and completion that is not free.
	About models.Info
	// Down, if set, is what Models returns.
	Down error

	mu    sync.Mutex
	gates map[string]chan struct{}
	runs  int
}

var (
	_ models.Provider = (*Provider)(nil)
	_ models.Informer = (*Provider)(nil)
)

func (p *Provider) Info() models.Info {
	if p.About.Driver != "" {
		return p.About
	}
	return models.Info{Driver: "fake", Kinds: []models.Kind{models.Chat, models.Complete}}
}

func (p *Provider) Models(ctx context.Context) ([]models.Model, error) {
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case p.Down != nil:
		return nil, p.Down
	case p.List != nil:
		return p.List, nil
	}
	return []models.Model{{Name: "fake"}}, nil
}

// Open lets every step go on that waits for name, or will.
func (p *Provider) Open(name string) {
	gate := p.gate(name)
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-gate:
	default:
		close(gate)
	}
}

func (p *Provider) gate(name string) chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gates == nil {
		p.gates = map[string]chan struct{}{}
	}
	if p.gates[name] == nil {
		p.gates[name] = make(chan struct{})
	}
	return p.gates[name]
}

// Runs is how often Run was called.
func (p *Provider) Runs() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.runs
}

func (p *Provider) Run(ctx context.Context, req models.Request, emit func(models.Chunk) error) (models.Usage, error) {
	p.mu.Lock()
	p.runs++
	p.mu.Unlock()
	r := run{provider: p, emit: emit, usage: models.Estimate(req, 0)}
	for step := range strings.SplitSeq(req.Last(), ";") {
		step = strings.TrimSpace(step)
		if ctx.Err() != nil && !strings.HasPrefix(step, "deaf ") {
			return r.usage, context.Cause(ctx)
		}
		if err := r.step(ctx, step); err != nil {
			return r.usage, err
		}
	}
	return r.usage, emit(models.Chunk{Finish: "stop", Usage: &r.usage})
}

type run struct {
	provider *Provider
	emit     func(models.Chunk) error
	usage    models.Usage
	calls    int
}

func (r *run) step(ctx context.Context, step string) error {
	verb, rest, _ := strings.Cut(step, " ")
	a, b, _ := strings.Cut(rest, " ")
	switch verb {
	case "use":
		in, _ := strconv.ParseInt(a, 10, 64)
		out, _ := strconv.ParseInt(b, 10, 64)
		r.usage = models.Usage{Input: in, Output: out}
		return nil
	case "wait":
		select {
		case <-r.provider.gate(rest):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	case "deaf":
		<-r.provider.gate(rest)
		return nil
	case "fail":
		return fsys.E(fsys.CodeNamed(a, fsys.Internal), b)
	case "call":
		call := models.ToolCall{Index: r.calls, ID: "call_" + strconv.Itoa(r.calls), Function: models.ToolFunction{Name: a, Arguments: b}}
		r.calls++
		return r.emit(models.Chunk{ToolCalls: []models.ToolCall{call}})
	case "panic":
		panic("as the script says")
	case "say":
		step = rest
	}
	if r.usage.Estimated {
		r.usage.Output += int64(len(step)+3) / 3
	}
	c := models.Chunk{Text: step + " "}
	if !r.usage.Estimated {
		c.Usage = &r.usage
	}
	return r.emit(c)
}
