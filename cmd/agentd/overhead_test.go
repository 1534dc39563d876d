package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"agent9/fsys"
	"agent9/fsys/ninep"
	"agent9/providers/models/httpapi"
)

// A pacer is a server of models whose answers come in pieces at a steady pace.
// Each piece is a line that says when the request came and when the piece was
// sent, on the clock of the pacer.
type pacer struct {
	epoch  time.Time
	pieces int // of an answer
}

func newPacer(pieces int) *pacer { return &pacer{epoch: time.Now(), pieces: pieces} }

const (
	pace   = 20 * time.Millisecond // also before the first piece
	pieces = 10                    // of an answer
	// line is a piece, of always the same length.
	line = "%015d %015d\n"
)

func (p *pacer) now() time.Duration { return time.Since(p.epoch) }

func (p *pacer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, "/models") {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"object":"list","data":[{"id":"m","object":"model"}]}`)
		return
	}
	came := p.now()
	io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "text/event-stream")
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for range p.pieces {
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		}
		text, _ := json.Marshal(fmt.Sprintf(line, came, p.now()))
		fmt.Fprintf(w, `data: {"object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"content":%s}}]}`+"\n\n", text)
		w.(http.Flusher).Flush()
	}
	fmt.Fprint(w, `data: {"object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
}

// A timing is how an answer came to its reader.
type timing struct {
	// first is from the request to the first piece, without what the server
	// waited.
	first time.Duration
	// late is how long after it was sent each piece came.
	late []time.Duration
}

// take adds the pieces in text, which came at now in answer to what was asked
// at asked.
func (t *timing) take(text string, asked, now time.Duration) error {
	for text != "" {
		var came, sent time.Duration
		n := strings.IndexByte(text, '\n') + 1
		if _, err := fmt.Sscanf(text[:n], line, &came, &sent); err != nil {
			return fmt.Errorf("a piece is %q: %w", text, err)
		}
		if len(t.late) == 0 {
			t.first = now - asked - (sent - came)
		}
		t.late = append(t.late, now-sent)
		text = text[n:]
	}
	return nil
}

func (t *timing) whole() error {
	if len(t.late) != pieces {
		return fmt.Errorf("%d pieces came, not %d", len(t.late), pieces)
	}
	return nil
}

const paceRequest = `{"model":"m","stream":true,"messages":[{"role":"user","content":"go"}]}`

// askDirectly asks the server at url, through a client as the driver has one.
func (p *pacer) askDirectly(ctx context.Context, client *http.Client, url string) (t timing, err error) {
	asked := p.now()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", strings.NewReader(paceRequest))
	if err != nil {
		return t, err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := client.Do(req)
	if err != nil {
		return t, err
	}
	defer res.Body.Close()
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		now := p.now()
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		if !ok || string(data) == "[DONE]" {
			continue
		}
		var e struct {
			Choices []struct{ Delta struct{ Content string } }
		}
		if err := json.Unmarshal(data, &e); err != nil {
			return t, err
		}
		if err := t.take(e.Choices[0].Delta.Content, asked, now); err != nil {
			return t, err
		}
	}
	return t, t.whole()
}

// askAgent asks through the tree of an agent: new is opened, written and read,
// and the output of the job is read to its end.
func (p *pacer) askAgent(ctx context.Context, agent fsys.Node) (t timing, err error) {
	asked := p.now()
	n, err := fsys.Converse(ctx, agent, "compute/new", []byte(paceRequest))
	if err != nil {
		return t, err
	}
	h, err := fsys.OpenPath(ctx, agent, "compute/jobs/"+strings.TrimSpace(string(n))+"/output", fsys.Read)
	if err != nil {
		return t, err
	}
	defer h.Close()
	b := make([]byte, 4096)
	for off := int64(0); ; {
		n, err := fsys.ReadAt(ctx, h, b, off)
		now := p.now()
		if n == 0 && (err == nil || errors.Is(err, io.EOF)) {
			return t, t.whole()
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return t, err
		}
		if err := t.take(string(b[:n]), asked, now); err != nil {
			return t, err
		}
		off += int64(n)
	}
}

// benchAgent returns an agent's tree, over 9P on a Unix socket, of a daemon in
// this process that asks the server at url and keeps its data on disk, and a
// client of HTTP on another socket.
func benchAgent(b *testing.B, url string) (fsys.Node, *http.Client) {
	b.Helper()
	dir, err := os.MkdirTemp("", "agentd") // whose path is short enough for sockets
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { os.RemoveAll(dir) })
	sock := filepath.Join(dir, "sock")
	ctx, end := context.WithCancel(context.WithoutCancel(b.Context()))
	listening, done := make(chan string, 2), make(chan error, 1)
	go func() {
		done <- serve(ctx, settings{
			data: filepath.Join(dir, "data"), listen: []string{"unix:" + sock}, http: []string{"unix:" + sock + ".http"}, compute: []string{"paced=openai,price=0:" + url},
			messages: io.Discard, getenv: func(string) string { return "" }, listening: func(at string) { listening <- at },
		})
	}()
	b.Cleanup(func() {
		end()
		if err := <-done; err != nil {
			b.Error(err)
		}
	})
	for range cap(listening) {
		select {
		case <-listening:
		case err := <-done:
			done <- err
			b.Fatal(err)
		}
	}
	c, err := ninep.Dial(b.Context(), "unix", sock)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	root, err := c.Attach(b.Context(), "", "")
	if err != nil {
		b.Fatal(err)
	}
	agents, err := fsys.WalkPath(b.Context(), root, "agents")
	if err != nil {
		b.Fatal(err)
	}
	agent, err := fsys.Mkdir(b.Context(), agents, "alice", 0o755)
	if err != nil {
		b.Fatal(err)
	}
	if err := fsys.WriteFile(b.Context(), agent, "compute/policy", []byte(`{"max_concurrent":1000}`)); err != nil {
		b.Fatal(err)
	}
	web := httpapi.Client()
	web.Transport.(*http.Transport).DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", sock+".http")
	}
	b.Cleanup(web.CloseIdleConnections)
	return agent, web
}

// atSameTime returns the timings of n requests made at the same moment.
func atSameTime(b *testing.B, n int, ask func() (timing, error)) []timing {
	b.Helper()
	all := make([]timing, n)
	var wg sync.WaitGroup
	for i := range all {
		wg.Go(func() {
			var err error
			if all[i], err = ask(); err != nil {
				b.Error(err)
			}
		})
	}
	wg.Wait()
	if b.Failed() {
		b.FailNow()
	}
	return all
}

// sample is durations of one thing, measured directly, through agent9, and
// the difference of each two that belong together.
type sample struct{ direct, agent9, added []time.Duration }

func (s *sample) add(direct, agent9 time.Duration) {
	s.direct = append(s.direct, direct)
	s.agent9 = append(s.agent9, agent9)
	s.added = append(s.added, agent9-direct)
}

// report gives the median and the 99th percentile of each.
func (s *sample) report(b *testing.B, what string) {
	for _, m := range []struct {
		name string
		took []time.Duration
	}{{"direct", s.direct}, {"agent9", s.agent9}, {"added", s.added}} {
		slices.Sort(m.took)
		for _, percent := range []int{50, 99} {
			d := m.took[len(m.took)*percent/100]
			b.ReportMetric(float64(d.Nanoseconds())/1000, fmt.Sprintf("%s-%s-µs-p%d", m.name, what, percent))
		}
	}
}

// fsyncTime is what it takes to write a page to f, and f to the disk.
func fsyncTime(b testing.TB, f *os.File) time.Duration {
	b.Helper()
	begun := time.Now()
	if _, err := f.Write(make([]byte, 4096)); err != nil {
		b.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		b.Fatal(err)
	}
	return time.Since(begun)
}

// BenchmarkOverhead reports what agent9 adds to the time to the first token
// and to the delay of each chunk, against the same request made directly to
// the same server, by turns: one stream at a time, and fifty that are asked
// for at the same moment. The server, the daemon and the readers share this
// process. files is through compute/new and output over 9P, openai through the
// agent's endpoint. An operation is one turn of each; -benchtime says how many. A job is
// on the disk before the server is asked, so the time of an fsync between the
// turns is given too.
func BenchmarkOverhead(b *testing.B) {
	for _, c := range []struct {
		way     string
		streams int
	}{{"files", 1}, {"files", 50}, {"openai", 1}, {"openai", 50}} {
		b.Run(fmt.Sprintf("%s/streams=%d", c.way, c.streams), func(b *testing.B) {
			streams := c.streams
			p := newPacer(pieces)
			srv := httptest.NewServer(p)
			defer srv.Close()
			agent, web := benchAgent(b, srv.URL)
			client, ctx := httpapi.Client(), b.Context()
			defer client.CloseIdleConnections()
			directly := func() (timing, error) { return p.askDirectly(ctx, client, srv.URL) }
			through := func() (timing, error) { return p.askAgent(ctx, agent) }
			if c.way == "openai" {
				through = func() (timing, error) { return p.askDirectly(ctx, web, "http://localhost/agents/alice") }
			}
			atSameTime(b, streams, directly) // so that there are connections
			atSameTime(b, streams, through)

			f, err := os.CreateTemp(b.TempDir(), "fsync")
			if err != nil {
				b.Fatal(err)
			}
			defer f.Close()

			var first, chunk sample
			var fsyncs []time.Duration
			for b.Loop() {
				fsyncs = append(fsyncs, fsyncTime(b, f))
				direct, agent9 := atSameTime(b, streams, directly), atSameTime(b, streams, through)
				for i := range streams {
					first.add(direct[i].first, agent9[i].first)
					for k := range pieces {
						chunk.add(direct[i].late[k], agent9[i].late[k])
					}
				}
			}
			first.report(b, "ttft")
			chunk.report(b, "chunk")
			slices.Sort(fsyncs)
			b.ReportMetric(float64(fsyncs[len(fsyncs)/2].Nanoseconds())/1000, "fsync-µs-p50")
			b.ReportMetric(0, "ns/op") // it is the server's pace
		})
	}
}
