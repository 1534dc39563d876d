package compute_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"agent9/fsys"
	"agent9/fsys/ninep"
	"agent9/namespace/budget"
	"agent9/providers/models"
	"agent9/providers/models/fake"
	"agent9/services/compute"
	"agent9/store"
	"agent9/store/bolt"
)

// moments is a provider whose answer comes a moment after the request, and
// says when that was.
type moments struct {
	mu sync.Mutex
	at map[string]time.Time // by the request
}

func (*moments) Models(context.Context) ([]models.Model, error) {
	return []models.Model{{Name: "m"}}, nil
}

func (*moments) Info() models.Info {
	return models.Info{Driver: "moments", Kinds: []models.Kind{models.Chat}, Free: true}
}

func (m *moments) Run(ctx context.Context, req models.Request, emit func(models.Chunk) error) (models.Usage, error) {
	t := time.NewTimer(20 * time.Millisecond) // the reader waits by then
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
		return models.Usage{}, context.Cause(ctx)
	}
	m.mu.Lock()
	m.at[req.Last()] = time.Now()
	m.mu.Unlock()
	return models.Usage{}, emit(models.Chunk{Text: "x"})
}

func (m *moments) since(req string, now time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return now.Sub(m.at[req])
}

// BenchmarkFirstToken reports how long after a provider gave the first token a
// read that waits for it returns: in this program, and at the other end of a
// Unix socket; with one stream at a time, and with fifty.
func BenchmarkFirstToken(b *testing.B) {
	for _, over := range []string{"tree", "9p"} {
		for _, streams := range []int{1, 50} {
			b.Run(fmt.Sprintf("%s/streams=%d", over, streams), func(b *testing.B) {
				p := &moments{at: make(map[string]time.Time)}
				root, ctx := benchTree(b, p)
				if over == "9p" {
					root, ctx = overSocket(b, root, ctx)
				}
				var mu sync.Mutex
				var took []time.Duration
				b.ResetTimer()
				var wg sync.WaitGroup
				for w := range streams {
					wg.Go(func() {
						for i := w; i < b.N; i += streams {
							d, err := firstToken(ctx, root, p, fmt.Sprintf("request %d", i))
							if err != nil {
								b.Error(err)
								return
							}
							mu.Lock()
							took = append(took, d)
							mu.Unlock()
						}
					})
				}
				wg.Wait()
				b.StopTimer()
				report(b, took)
			})
		}
	}
}

// report gives the median, the 99th percentile and the most of took.
func report(b *testing.B, took []time.Duration) {
	if len(took) == 0 {
		return
	}
	slices.Sort(took)
	us := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }
	b.ReportMetric(us(took[len(took)/2]), "p50-µs")
	b.ReportMetric(us(took[len(took)*99/100]), "p99-µs")
	b.ReportMetric(us(took[len(took)-1]), "max-µs")
}

// firstToken asks, waits for the first byte of the output, and returns how
// long after the provider gave it that came.
func firstToken(ctx context.Context, root fsys.Node, p *moments, req string) (time.Duration, error) {
	n, err := fsys.Converse(ctx, root, "new", []byte(req))
	if err != nil {
		return 0, err
	}
	h, err := fsys.OpenPath(ctx, root, "jobs/"+strings.TrimSpace(string(n))+"/output", fsys.Read)
	if err != nil {
		return 0, err
	}
	defer h.Close()
	_, err = fsys.ReadAt(ctx, h, make([]byte, 64), 0)
	return p.since(req, time.Now()), err
}

// benchTree is the tree of a service on a database on disk.
func benchTree(b *testing.B, p models.Provider) (fsys.Node, context.Context) {
	b.Helper()
	db, err := bolt.Open(filepath.Join(b.TempDir(), "db"))
	if err != nil {
		b.Fatal(err)
	}
	s, ctx := benchService(b, db, p)
	b.Cleanup(func() {
		s.Close(context.WithoutCancel(ctx))
		db.Close()
	})
	if err := fsys.WriteFile(ctx, s.Policy(), "", []byte(`{"max_concurrent":1000}`)); err != nil {
		b.Fatal(err)
	}
	return s.Root(), ctx
}

// benchService is a service for benchmarks that is paid from an account
// without limits.
func benchService(b *testing.B, db store.Updater, p models.Provider) (*compute.Service, context.Context) {
	b.Helper()
	account, err := budget.Open(b.Context(), store.Sub(db, "budget/"), budget.Options{})
	if err != nil {
		b.Fatal(err)
	}
	s, err := compute.Open(b.Context(), compute.Config{
		Store: store.Sub(db, "compute/"), Account: account, Providers: []*models.Runner{models.NewRunner("main", p)},
	})
	if err != nil {
		b.Fatal(err)
	}
	return s, budget.With(b.Context(), account)
}

// overSocket is root as it is seen through 9P on a Unix socket.
func overSocket(b *testing.B, root fsys.Node, payer context.Context) (fsys.Node, context.Context) {
	b.Helper()
	a, _ := budget.From(payer)
	l, err := net.Listen("unix", filepath.Join(b.TempDir(), "s"))
	if err != nil {
		b.Fatal(err)
	}
	srv := &ninep.Server{Attach: func(context.Context, ninep.Peer, string, string) (ninep.Grant, error) {
		return ninep.Grant{Root: paid{root, a}}, nil
	}}
	served := make(chan struct{})
	go func() {
		defer close(served)
		srv.Serve(l)
	}()
	c, err := ninep.Dial(b.Context(), "unix", l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		c.Close()
		l.Close()
		<-served
	})
	remote, err := c.Attach(b.Context(), "", "")
	if err != nil {
		b.Fatal(err)
	}
	return remote, b.Context()
}

// paid is a tree in which what is opened is paid from an account, as a mount
// of a namespace has it.
type paid struct {
	fsys.Node
	a *budget.Account
}

func (p paid) Open(ctx context.Context, flag fsys.Flag) (fsys.Handle, error) {
	ctx = budget.With(ctx, p.a)
	h, err := p.Node.Open(ctx, flag)
	return h, err
}

func (p paid) Walk(ctx context.Context, name string) (fsys.Node, error) {
	n, err := fsys.Walk(ctx, p.Node, name)
	if err != nil {
		return nil, err
	}
	return paid{n, p.a}, nil
}

func (p paid) List(ctx context.Context) ([]fsys.Entry, error) { return fsys.List(ctx, p.Node) }

// BenchmarkSubmit reports what a job costs from the write to new to its end,
// on a database on disk, by one writer and by 64.
func BenchmarkSubmit(b *testing.B) {
	for _, writers := range []int{1, 64} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			root, ctx := benchTree(b, &instant{})
			fsync := fsyncTime(b)
			b.ResetTimer()
			var wg sync.WaitGroup
			for w := range writers {
				wg.Go(func() {
					for i := w; i < b.N; i += writers {
						n, err := fsys.Converse(ctx, root, "new", []byte("x"))
						if err == nil {
							_, err = fsys.ReadFile(ctx, root, "jobs/"+strings.TrimSpace(string(n))+"/result")
						}
						if err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
			b.ReportMetric(float64(b.Elapsed())/float64(b.N)/float64(fsync), "fsyncs/job")
		})
	}
}

// fsyncTime is the median of what it takes to write a page to the disk.
func fsyncTime(b *testing.B) time.Duration {
	f, err := os.Create(filepath.Join(b.TempDir(), "f"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	took := make([]time.Duration, 101)
	for i := range took {
		begun := time.Now()
		if _, err := f.Write(make([]byte, 4096)); err != nil {
			b.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
		took[i] = time.Since(begun)
	}
	slices.Sort(took)
	return took[len(took)/2]
}

// BenchmarkRunning reports the memory that a thousand running jobs take, each.
func BenchmarkRunning(b *testing.B) {
	const jobs = 1000
	memory := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc + m.StackInuse
	}
	for b.Loop() {
		p := &fake.Provider{}
		root, ctx := benchTree(b, p)
		before := memory()
		for range jobs {
			if _, err := fsys.Converse(ctx, root, "new", []byte("say x;wait end")); err != nil {
				b.Fatal(err)
			}
		}
		for n := range jobs { // until it has said something
			h, err := fsys.OpenPath(ctx, root, fmt.Sprintf("jobs/%d/output", n+1), fsys.Read)
			if err == nil {
				_, err = fsys.ReadAt(ctx, h, make([]byte, 1), 0)
			}
			if err != nil {
				b.Fatal(err)
			}
			h.Close()
		}
		b.ReportMetric(float64(memory()-before)/jobs/1024, "KiB/job")
		p.Open("end")
		if _, err := fsys.ReadFile(ctx, root, fmt.Sprintf("jobs/%d/result", jobs)); err != nil {
			b.Fatal(err)
		}
	}
}

// instant is a provider that answers at once.
type instant struct{ moments }

func (*instant) Run(_ context.Context, _ models.Request, emit func(models.Chunk) error) (models.Usage, error) {
	return models.Usage{}, emit(models.Chunk{Text: "x"})
}
