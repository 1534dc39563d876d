package mcp

import (
	"context"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"agent9/fsys"
	"agent9/fsys/share"
)

// A Root finds the tree that is served. It is asked for each operation.
type Root func(ctx context.Context) (fsys.Node, error)

// Fixed is the Root that is always n.
func Fixed(n fsys.Node) Root {
	return func(context.Context) (fsys.Node, error) { return n, nil }
}

const instructions = `This is a tree of files that agent9 serves: an AI agent's own, or one with all agents below /agents. Begin with: read /README.

Kinds of files:
- file: read it, and where it is allowed write it.
- message: call it. What you send is a request and what you get is its reply; a ctl file takes commands, one per line.
- stream: it only grows. read gives what is there now, wait what comes; both say next_offset, where you go on.
- directory: list it.

Common work, in an agent's tree:
- ask a model: call /compute/new with text, or with a body of OpenAI's chat completions. The reply is a job's number N: wait for /compute/jobs/N/output with to_end; /compute/jobs/N/result is the whole answer as JSON and /compute/jobs/N/status says how it went.
- run a command in a sandbox: call /containers/new, then wait for /containers/sessions/N/output with to_end.
- leave a message for the agent: call /inbox/new.
- what happened: read /logs/recent. What was refused and why: read /logs/errors.
With all agents in view, the same is below /agents/NAME.`

// A tree is a Root as one server serves it.
type tree struct {
	root    Root
	life    context.Context
	brief   bool        // the server lives for one request
	part    *share.Part // of what it makes the daemon keep; nil: nobody counts
	server  *sdk.Server
	follows follows
}

// schemas spare a server that lives for one request the work of another one.
type schemas = *sdk.SchemaCache

// NewServer returns a server of the tree that root finds. What its clients
// wait for ends with life, at the latest.
func NewServer(life context.Context, root Root, version string) *sdk.Server {
	t := &tree{root: root, life: life}
	return t.serve(version, nil)
}

func (t *tree) serve(version string, known schemas) *sdk.Server {
	t.server = sdk.NewServer(&sdk.Implementation{Name: "agent9", Title: "agent9", Version: version}, &sdk.ServerOptions{
		Instructions: instructions,
		SchemaCache:  known,
		Capabilities: &sdk.ServerCapabilities{
			Tools:     &sdk.ToolCapabilities{},
			Resources: &sdk.ResourceCapabilities{Subscribe: true},
		},
		SubscribeHandler:   t.subscribe,
		UnsubscribeHandler: t.unsubscribe,
	})
	t.server.AddReceivingMiddleware(t.bounded)
	t.addTools()
	t.addResources()
	return t.server
}

var errBrief = fsys.E(fsys.Unsupported, "subscriptions over HTTP need protocol 2026-07-28; wait for the stream instead")

// bounded ends every request with the life of the server, and lists resources
// as they are then.
func (t *tree) bounded(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		defer context.AfterFunc(t.life, func() { cancel(context.Cause(t.life)) })()
		if t.brief && method == "resources/subscribe" {
			return nil, told(ctx, "/", errBrief)
		}
		res, err := next(ctx, method, req)
		if list, ok := res.(*sdk.ListResourcesResult); ok && err == nil {
			list.Resources, err = t.list(ctx)
		}
		return res, err
	}
}
