// Package httpapi is what drivers of HTTP APIs have in common: requests that
// wait as long as their context does, errors in words for people and without
// the key, events, and the reading of whole responses.
package httpapi

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"agent9/fsys"
	"agent9/providers/models"
	"agent9/providers/scrub"
)

// An API is a server and the key to it.
type API struct {
	// Target is the server's URL, without a slash at the end.
	Target string
	// Key is sent as the bearer token, or as Sign has it; empty sends none. It
	// is taken out of every error; see package scrub.
	Key string
	// Sign, if set, adds the key to a request, and what else the API wants.
	Sign func(header http.Header, key string)
	// KeyName is what the user calls the key, such as OPENAI_API_KEY.
	KeyName string
	// Client sends the requests of Post and Get; see [Client].
	Client *http.Client
	// Code, if set, knows the Code of a refusal better than its status does.
	// Internal leaves it to the status.
	Code func(status int, body []byte) fsys.Code

	once   sync.Once
	hidden *scrub.Scrubber // of Key
}

// Base reads the URL of a server. One without a path gets path. The reason of
// its error names the driver, and example as what would be right.
func Base(raw, path, driver, example string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fsys.E(fsys.Invalid, driver+" needs the URL of a server, as in "+driver+":"+example)
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, fsys.E(fsys.Invalid, "the URL of a server has no user and no query; the key comes from the environment")
	}
	u.Path = trim(u.Path)
	if u.Path == "" {
		u.Path = path
	}
	return u, nil
}

func trim(path string) string {
	for len(path) > 0 && path[len(path)-1] == '/' {
		path = path[:len(path)-1]
	}
	return path
}

// Client returns a client that waits for an answer as long as the context does,
// but not for a connection. Redirects are followed only by what cannot cost
// anything, and only to the same server: the key is for nobody else.
func Client() *http.Client { return &http.Client{Transport: transport(), CheckRedirect: stay} }

func stay(r *http.Request, via []*http.Request) error {
	first := via[0].URL
	if method := via[0].Method; method != http.MethodGet && method != http.MethodHead {
		return &fsys.Error{Code: fsys.Unavailable, Reason: "the server redirects to " + r.URL.Scheme + "://" + r.URL.Host + r.URL.EscapedPath() + ", and a request that may cost money is sent only once; configure the address that answers itself", Err: errElsewhere}
	}
	if r.URL.Scheme != first.Scheme || r.URL.Host != first.Host {
		return &fsys.Error{Code: fsys.Unavailable, Reason: "the server sends requests on to " + r.URL.Scheme + "://" + r.URL.Host + "; if that is right, it is the address to use", Err: errElsewhere}
	}
	if len(via) >= 10 {
		return fsys.E(fsys.Unavailable, "the server sends requests on without an end")
	}
	return nil
}

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

// Post sends a JSON body to path, which begins with a slash, and returns the
// response, whose status is good. The caller closes its body.
func (a *API) Post(ctx context.Context, path string, body []byte) (*http.Response, error) {
	return a.Send(ctx, path, "application/json", body)
}

// Send is Post with a body of this media type.
func (a *API) Send(ctx context.Context, path, mediaType string, body []byte) (*http.Response, error) {
	return a.do(ctx, http.MethodPost, path, mediaType, bytes.NewReader(body))
}

// Get asks for path.
func (a *API) Get(ctx context.Context, path string) (*http.Response, error) {
	return a.do(ctx, http.MethodGet, path, "", nil)
}

func (a *API) do(ctx context.Context, method, path, mediaType string, body io.Reader) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, a.Target+path, body)
	if err != nil {
		return nil, fsys.E(fsys.Invalid, "the server's URL cannot be asked for "+a.Redact(path))
	}
	r.Header.Set("User-Agent", "agent9")
	if body != nil {
		r.Header.Set("Content-Type", mediaType)
	}
	switch {
	case a.Sign != nil:
		a.Sign(r.Header, a.Key)
	case a.Key != "":
		r.Header.Set("Authorization", "Bearer "+a.Key)
	}
	res, err := a.Client.Do(r)
	if err := a.Explain(ctx, res, err); err != nil {
		return nil, err
	}
	return res, nil
}

// Body reads a whole response, and closes it.
func (a *API) Body(ctx context.Context, res *http.Response) ([]byte, error) {
	defer res.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(res.Body, models.MaxResult+1))
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, a.Broken(err)
	case len(raw) > models.MaxResult:
		return nil, fsys.E(fsys.TooLarge, "the response is longer than 16 MiB")
	}
	return raw, nil
}

// MediaType is the type of a response without its parameters.
func MediaType(res *http.Response) string {
	t, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	return t
}

// Unanswered is what a request used that had no response: nothing if it was
// refused or never arrived. What became of any other one nobody knows.
func Unanswered(ctx context.Context, req models.Request, err error) models.Usage {
	var refused *Refusal
	var dial *net.OpError
	switch {
	case ctx.Err() != nil, fsys.CodeOf(err) == fsys.Timeout:
	case errors.As(err, &refused), errors.As(err, &dial) && dial.Op == "dial", errors.Is(err, errElsewhere):
		return models.Usage{}
	}
	return models.Estimate(req, 0)
}

// errElsewhere is a server that sends on, and has done nothing.
var errElsewhere = errors.New("elsewhere")
