//go:build unix

// Package mcp reaches servers of tools in the Model Context Protocol: programs,
// on their standard input and output, and URLs (streamable HTTP).
//
// A program is the leader of a process group. It is given PATH, HOME, USER,
// LANG, TMPDIR and TZ of this process, and what its Spec says, and nothing
// else. To end, its input is closed; after half a second it gets SIGTERM, after
// another one SIGKILL, and so does all that is left of its group.
package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"agent9/fsys"
	"agent9/providers/internal/proctree"
	"agent9/providers/tools"
)

type Provider struct{ version, mark string }

var _ tools.Provider = (*Provider)(nil)

// New returns a provider that says this version of itself. Its programs are
// marked as commands of the daemon whose data is in the directory data, so that
// the next one ends them if that is killed; none are if data is empty.
func New(version, data string) *Provider {
	p := &Provider{version: version}
	if data != "" {
		p.mark = proctree.Var + "=" + proctree.Owner(data)
	}
	return p
}

// maxFrame is how long one message of a server may be.
const maxFrame = 8 << 20

func (p *Provider) Start(ctx context.Context, spec tools.Spec) (tools.Session, error) {
	s := &session{spec: spec, mark: p.mark, done: make(chan struct{})}
	s.stale.Store(true)
	client := sdk.NewClient(&sdk.Implementation{Name: "agent9", Version: p.version}, &sdk.ClientOptions{
		Capabilities:           &sdk.ClientCapabilities{},
		ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) { s.stale.Store(true) },
	})
	transport, err := s.transport()
	if err != nil {
		return nil, err
	}
	if s.ClientSession, err = client.Connect(ctx, transport, nil); err != nil {
		if s.process != nil {
			s.process.close(ctx)
		}
		return nil, s.failed(ctx, err)
	}
	go func() { // until the server has ended
		s.ClientSession.Wait()
		if s.process != nil {
			<-s.process.ended
		}
		close(s.done)
	}()
	return s, nil
}

func (s *session) transport() (sdk.Transport, error) {
	if len(s.spec.Command) == 0 {
		return &sdk.StreamableClientTransport{
			Endpoint: s.spec.URL, HTTPClient: httpClient(s.spec.Headers), MaxRetries: -1, MaxEventSize: maxFrame,
			DisableStandaloneSSE: true,
		}, nil
	}
	var err error
	if s.process, err = start(s.spec, s.mark); err != nil {
		return nil, &fsys.Error{Code: fsys.Unavailable, Reason: "the server could not be started: " + err.Error(), Err: err}
	}
	return &sdk.IOTransport{Reader: s.process.out, Writer: s.process.in, MaxLineLength: maxFrame}, nil
}

// A session is a server that was greeted.
type session struct {
	mark string // of its program
	*sdk.ClientSession
	spec    tools.Spec
	process *process // nil: it is elsewhere
	done    chan struct{}

	stale atomic.Bool
	mu    sync.Mutex
	known []tools.Tool
}

func (s *session) About() tools.About {
	r := s.InitializeResult()
	if r == nil || r.ServerInfo == nil {
		return tools.About{}
	}
	hide := s.spec.Hidden.String
	return tools.About{Name: hide(r.ServerInfo.Name), Version: hide(r.ServerInfo.Version), Instructions: hide(r.Instructions)}
}

func (s *session) List(ctx context.Context) ([]tools.Tool, error) {
	if !s.stale.Swap(false) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.known, nil
	}
	all, err := s.list(ctx)
	if err != nil {
		s.stale.Store(true)
		return nil, s.failed(ctx, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known = all
	return all, nil
}

func (s *session) list(ctx context.Context) (all []tools.Tool, err error) {
	size := 0
	for tool, err := range s.Tools(ctx, nil) {
		if err != nil {
			return nil, err
		}
		schema, err := json.Marshal(tool)
		if err != nil {
			return nil, err
		}
		if schema, err = s.hide(schema); err != nil {
			return nil, err
		}
		if size += len(schema); len(all) == tools.MaxTools || size > tools.MaxSchema {
			return nil, fsys.E(fsys.TooLarge, fmt.Sprintf("the server has more than %d tools, or says more than %d bytes of them", tools.MaxTools, tools.MaxSchema))
		}
		all = append(all, tools.Tool{Name: s.spec.Hidden.String(tool.Name), Schema: schema})
	}
	return all, nil
}

func (s *session) Call(ctx context.Context, tool string, args json.RawMessage) (json.RawMessage, error) {
	res, err := s.CallTool(ctx, &sdk.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		return nil, s.failed(ctx, err)
	}
	b, err := json.Marshal(res)
	if err != nil {
		return nil, fsys.Wrap(fsys.Unavailable, "the result", err)
	}
	if len(b) > tools.MaxResult {
		return nil, fsys.E(fsys.TooLarge, fmt.Sprintf("the result has %d bytes, and at most %d are taken", len(b), tools.MaxResult))
	}
	return s.hide(b)
}

// hide takes the secrets out of JSON.
func (s *session) hide(doc []byte) ([]byte, error) {
	if doc = s.spec.Hidden.Bytes(doc); !json.Valid(doc) {
		return nil, fsys.E(fsys.Unavailable, "the server repeats a secret where it cannot be taken out")
	}
	return doc, nil
}

func (s *session) Done() <-chan struct{} { return s.done }

func (s *session) Err() error {
	if s.process != nil {
		return fsys.E(fsys.Unavailable, s.clean("the server "+s.process.fate()))
	}
	return fsys.E(fsys.Unavailable, "the connection to the server ended")
}

func (s *session) Close(ctx context.Context) {
	if s.process != nil {
		s.process.close(ctx)
	}
	s.ClientSession.Close()
	<-s.done
}

// failed says err for who asked: as what ended ctx, or what the server said.
func (s *session) failed(ctx context.Context, err error) error {
	var wire *jsonrpc.Error
	var coded *fsys.Error
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &coded):
		return err
	case s.process != nil && (!errors.As(err, &wire) || errors.Is(err, sdk.ErrConnectionClosed)) && s.process.over():
		return s.Err()
	case errors.As(err, &wire) && wire.Code == jsonrpc.CodeInvalidParams:
		return fsys.E(fsys.Invalid, s.clean(wire.Message))
	case errors.As(err, &wire):
		return fsys.E(fsys.Unavailable, s.clean("the server says: "+wire.Message))
	}
	return fsys.E(fsys.Unavailable, s.clean(err.Error()))
}

// clean returns text without secrets and not too long.
func (s *session) clean(text string) string {
	text = s.spec.Hidden.String(text)
	const most = 2 << 10
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

// httpClient returns a client whose requests have headers, and which follows
// no redirect: that could show them to somebody else.
func httpClient(headers map[string]string) *http.Client {
	return &http.Client{
		Transport:     &withHeaders{http.DefaultTransport, headers},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

type withHeaders struct {
	http.RoundTripper
	headers map[string]string
}

func (w *withHeaders) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, value := range w.headers {
		r.Header.Set(name, value)
	}
	res, err := w.RoundTripper.RoundTrip(r)
	if err == nil && res.Header.Get("Content-Type") != "text/event-stream" {
		res.Body = http.MaxBytesReader(nil, res.Body, maxFrame)
	}
	return res, err
}
