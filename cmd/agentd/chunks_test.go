//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"agent9/fsys"
	"agent9/providers/models/httpapi"
)

// spout is a server of models that answers with so many pieces as fast as
// they are read.
type spout int

func (s spout) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, "/models") {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"object":"list","data":[{"id":"m","object":"model"}]}`)
		return
	}
	io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "text/event-stream")
	for range int(s) {
		io.WriteString(w, `data: {"object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"content":"word "}}]}`+"\n\n")
		w.(http.Flusher).Flush()
	}
	fmt.Fprint(w, `data: {"object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
}

// drain asks the server at url and returns how many pieces came.
func drain(ctx context.Context, client *http.Client, url string) (n int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", strings.NewReader(paceRequest))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		if bytes.Contains(lines.Bytes(), []byte(`"word "`)) {
			n++
		}
	}
	return n, nil
}

// drainAgent does the same by way of an agent's files.
func drainAgent(ctx context.Context, agent fsys.Node) (n int, err error) {
	job, err := fsys.Converse(ctx, agent, "compute/new", []byte(paceRequest))
	if err != nil {
		return 0, err
	}
	h, err := fsys.OpenPath(ctx, agent, "compute/jobs/"+strings.TrimSpace(string(job))+"/output", fsys.Read)
	if err != nil {
		return 0, err
	}
	defer h.Close()
	b := make([]byte, 64<<10)
	for off := int64(0); ; {
		m, err := fsys.ReadAt(ctx, h, b, off)
		off += int64(m)
		if m == 0 && (err == nil || errors.Is(err, io.EOF)) {
			return int(off) / len("word "), nil
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
	}
}

// BenchmarkChunks reports how many pieces of an answer come in a second of
// processor time, of an answer that is sent as fast as it is read: asked for
// directly, by way of an agent's files over 9P, and by way of its endpoint. The
// server, the daemon and the reader share this process, so all of their time
// counts.
func BenchmarkChunks(b *testing.B) {
	const many = 20_000
	srv := httptest.NewServer(spout(many))
	defer srv.Close()
	agent, web := benchAgent(b, srv.URL)
	client := httpapi.Client()
	defer client.CloseIdleConnections()
	for _, c := range []struct {
		way string
		ask func(ctx context.Context) (int, error)
	}{
		{"directly", func(ctx context.Context) (int, error) { return drain(ctx, client, srv.URL) }},
		{"files", func(ctx context.Context) (int, error) { return drainAgent(ctx, agent) }},
		{"openai", func(ctx context.Context) (int, error) { return drain(ctx, web, "http://localhost/agents/alice") }},
	} {
		b.Run(c.way, func(b *testing.B) {
			before, began, total := processorTime(b), time.Now(), 0
			for b.Loop() {
				n, err := c.ask(b.Context())
				if err != nil || n != many {
					b.Fatal(n, err)
				}
				total += n
			}
			b.ReportMetric(float64(total)/(processorTime(b)-before).Seconds(), "chunks/cpu-s")
			b.ReportMetric(float64(total)/time.Since(began).Seconds(), "chunks/s")
		})
	}
}

// processorTime is what this process has used of it.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
