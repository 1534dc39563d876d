// Package openai is a provider for every server that speaks OpenAI's API:
// OpenAI, Ollama, vLLM, llama.cpp, LM Studio and many more.
//
// A request's body goes out as it was submitted, so a field that nobody here
// knows survives. Answers are streamed unless the request says "stream": false
// or asks for what does not come in pieces (log probabilities, sound); then
// the response is kept as it came.
package openai

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"agent9/fsys"
	"agent9/providers/compute"
)

// Config says which server to ask.
type Config struct {
	// BaseURL is where the API is, such as https://api.openai.com/v1. With no
	// path, /v1 is meant.
	BaseURL string
	// Key is sent as the bearer token; empty sends none.
	Key string
	// KeyName is what the user calls the key, such as OPENAI_API_KEY, for
	// messages about it.
	KeyName string
	// Billed says that the work costs money. A server that is asked without a
	// key is taken to cost nothing otherwise.
	Billed bool
}

type Provider struct {
	client openai.Client
	key    string
	name   string // of the key
	info   compute.Info
}

var (
	_ compute.Provider = (*Provider)(nil)
	_ compute.Informer = (*Provider)(nil)
)

// paths has each kind of work that can be done, and where.
var paths = map[compute.Kind]string{
	compute.Chat:       "chat/completions",
	compute.Complete:   "completions",
	compute.Embeddings: "embeddings",
}

// New returns a Provider. It does not ask the server.
func New(c Config) (*Provider, error) {
	u, err := url.Parse(c.BaseURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fsys.E(fsys.Invalid, "openai needs the URL of a server, as in openai:https://api.openai.com/v1")
	}
	if u.User != nil || u.RawQuery != "" {
		return nil, fsys.E(fsys.Invalid, "the URL of a server has no user and no query; the key comes from the environment")
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/v1"
	}
	if c.KeyName == "" {
		c.KeyName = "OPENAI_API_KEY"
	}
	// The options are given one by one, without the library's own look at the
	// environment: two providers may have different servers and keys.
	options := []option.RequestOption{
		option.WithBaseURL(u.String()),
		option.WithHTTPClient(&http.Client{Transport: transport()}),
		option.WithMaxRetries(0), // a retry is decided by who pays for it
	}
	if c.Key != "" {
		options = append(options, option.WithAPIKey(c.Key))
	}
	return &Provider{
		client: openai.Client{Options: options},
		key:    c.Key,
		name:   c.KeyName,
		info: compute.Info{
			Driver: "openai",
			Target: u.String(),
			Kinds:  []compute.Kind{compute.Chat, compute.Complete, compute.Embeddings},
			Free:   c.Key == "" && !c.Billed,
		},
	}, nil
}

// transport waits for an answer as long as the context does, but not for a
// connection.
func transport() *http.Transport {
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout: 10 * time.Second,
		ForceAttemptHTTP2:   true,
		MaxIdleConnsPerHost: 16,
		IdleConnTimeout:     time.Minute,
	}
}

func (p *Provider) Info() compute.Info { return p.info }

func (p *Provider) Run(ctx context.Context, req compute.Request, emit func(compute.Chunk) error) (compute.Usage, error) {
	path, ok := paths[req.Kind]
	if !ok {
		return compute.Usage{}, fsys.E(fsys.Unsupported, "this driver cannot do "+string(req.Kind))
	}
	if req.Kind == compute.Embeddings || req.NoStream {
		return p.whole(ctx, path, req, emit)
	}
	return p.stream(ctx, path, req, emit)
}

// post sends body and returns the response, whose status is good.
func (p *Provider) post(ctx context.Context, path string, body compute.Body) (*http.Response, error) {
	var res *http.Response
	err := p.client.Post(ctx, path, body.Bytes(), &res)
	if err == nil && res == nil {
		return nil, fsys.E(fsys.Unavailable, "the server gave no response")
	}
	return res, p.explain(ctx, res, err)
}
