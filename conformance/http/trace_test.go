package http

import (
	"agent9/conformance/daemon"
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	traces "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// newCollector returns a receiver of traces.
func newCollector(t *testing.T) (url string, spans <-chan *traces.Span) {
	received := make(chan *traces.Span, 1000)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if r.Header.Get("Content-Encoding") == "gzip" {
			var z *gzip.Reader
			if z, err = gzip.NewReader(bytes.NewReader(body)); err == nil {
				body, err = io.ReadAll(z)
			}
		}
		var req collector.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(body, &req)
		}
		if err != nil {
			t.Error(err)
		}
		for _, a := range req.ResourceSpans {
			for _, b := range a.ScopeSpans {
				for _, span := range b.Spans {
					received <- span
				}
			}
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(s.Close)
	return s.URL, received
}

// TestTraces follows a request from the client to the provider, over HTTP, in
// OpenAI's language and over 9P.
func TestTraces(t *testing.T) {
	url, spans := newCollector(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
	const trace, parent, prompt = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", "a prompt that is nobody's business"
	d, base, operator := daemon.StartWeb(t)
	daemon.Create(t, operator, "alice")
	token := daemon.TokenFor(t, operator, "alice")
	post := func(path, body string) {
		r, err := http.NewRequestWithContext(t.Context(), "POST", base+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Traceparent", "00-"+trace+"-"+parent+"-01")
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != 200 {
			t.Errorf("%s: %d", path, res.StatusCode)
		}
	}
	d.Root().Write("agents/alice/compute/new", `{"messages":[{"role":"user","content":"`+prompt+`"}]}`)
	post("/agents/alice/compute/new", prompt)
	post("/agents/alice/v1/chat/completions", `{"messages":[{"role":"user","content":"`+prompt+`"}]}`)
	byID := map[string]*traces.Span{}
	var calls []*traces.Span
	late := time.After(daemon.Limit)
	chains := map[string]bool{}
	for len(chains) < 3 {
		select {
		case span := <-spans:
			byID[string(span.SpanId)] = span
			if span.Name == "provider call" {
				calls = append(calls, span)
			}
			if strings.Contains(span.String(), prompt) || strings.Contains(span.String(), token) {
				t.Errorf("a secret is in %v", span)
			}
		case <-late:
			t.Fatalf("after %v the chains are %v, of %d spans", daemon.Limit, chains, len(byID))
		}
		for _, call := range calls {
			chain, at := call.Name, call
			for byID[string(at.ParentSpanId)] != nil {
				at = byID[string(at.ParentSpanId)]
				chain = at.Name + " > " + chain
			}
			if strings.HasPrefix(chain, "9P") || hex.EncodeToString(at.ParentSpanId) == parent && hex.EncodeToString(at.TraceId) == trace {
				chains[chain] = true
			}
		}
	}
	for _, want := range []string{
		"9P Twrite > compute job > provider call",
		"HTTP POST /compute > compute job > provider call",
		"OpenAI chat > compute job > provider call",
	} {
		if !chains[want] {
			t.Errorf("there is no %s in %v", want, chains)
		}
	}
}
