package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"agent9/cmd/internal/addr"
	"agent9/fsys"
	"agent9/fsys/export/web"
	"agent9/fsys/ninep"
	"agent9/fsys/share"
	"agent9/gateway/mcp"
	"agent9/gateway/openai"
	"agent9/gateway/page"
)

// newHTTPDurations counts the requests that were answered, and how long that
// took.
func newHTTPDurations() *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "agent9_http_request_duration_seconds", Help: "Time until a request over HTTP was answered, streams included.",
		Buckets: []float64{.0001, .001, .01, .1, 1, 10, 60},
	}, []string{"method", "code"})
}

func observe(durations *prometheus.HistogramVec) func(string, int, time.Duration) {
	return func(method string, status int, took time.Duration) {
		if !slices.Contains(web.Methods, method) {
			method = "other"
		}
		durations.WithLabelValues(method, strconv.Itoa(status)).Observe(took.Seconds())
	}
}

// webServer returns what serves HTTP.
func webServer(l *logins, s settings) *web.Server {
	return &web.Server{
		Attach:   l.attach,
		Pool:     s.pool,
		SocketBy: share.Operator,
		MaxConns: s.maxConns,
		PeerUID:  ninep.PeerUID,
		App:      apps(openai.App, mcp.App(version())),
		Page:     page.New().Answers,
		Origins:  s.httpCORS,
		Hosts:    s.httpHosts,
		Public: map[string]http.Handler{
			"/healthz": alive("ok\n"),
			"/readyz":  alive("ready\n"),
		},
	}
}

// apps is the first of all that has an answer at a path.
func apps(all ...func(path []string) *web.App) func(path []string) *web.App {
	return func(path []string) *web.App {
		for _, app := range all {
			if found := app(path); found != nil {
				return found
			}
		}
		return nil
	}
}

// version is what clients are told of this program.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

// alive answers whoever asks, and says no more than that. Before the daemon
// is ready nobody listens, and when it ends nobody does any longer.
func alive(text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			web.Refuse(w, fsys.E(fsys.Unsupported, "this can only be read"))
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		io.WriteString(w, text)
	})
}

// httpPlaces returns what --http says. A number is a port on 127.0.0.1.
func httpPlaces(s settings) ([]place, error) {
	var all []place
	for _, at := range s.http {
		text := at
		if host, port, err := net.SplitHostPort(at); err == nil && port != "" && host != "unix" && host != "tcp" {
			if host == "" {
				host = "127.0.0.1"
			}
			text = "tcp:" + net.JoinHostPort(host, port)
		}
		network, address, err := addr.Parse(text)
		if err != nil {
			return nil, usage(fsys.E(fsys.Invalid, fmt.Sprintf("--http: %q is not an address; write HOST:PORT, such as 127.0.0.1:8009, or unix:PATH", at)))
		}
		if network == "tcp" && strings.HasPrefix(text, "tcp") && strings.Count(text, ":") < 2 && !strings.Contains(text, "!") {
			return nil, usage(fsys.E(fsys.Invalid, "--http: "+at+" has no port; write HOST:PORT, such as 127.0.0.1:8009, or unix:PATH"))
		}
		if network == "tcp" && s.cert == "" && !isLoopback(address) {
			return nil, usage(beyondLoopback(at))
		}
		all = append(all, place{network, address})
	}
	for _, origin := range s.httpCORS {
		if scheme, host, ok := strings.Cut(origin, "://"); !ok || scheme != "http" && scheme != "https" || host == "" || strings.Contains(host, "/") {
			return nil, usage(fsys.E(fsys.Invalid, "--http-cors: "+origin+" is not an origin, such as https://example.com"))
		}
	}
	return all, nil
}

// endWeb ends what is under way over HTTP.
func endWeb(ctx context.Context, log *slog.Logger, pages *web.Server) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	if err := pages.Shutdown(ctx); err != nil {
		log.Warn("some HTTP requests did not end in time", "err", err)
	}
}
