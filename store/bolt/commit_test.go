package bolt_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"agent9/fsys"
	"agent9/store"
	"agent9/store/bolt"
)

// crowd lets n Updates of keys "00", "01" … wait behind one that runs, calls
// f, lets them go, and returns their errors.
func crowd(t *testing.T, d *bolt.DB, n int, f func()) []error {
	errs := make([]error, n)
	running, finish := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		d.Update(t.Context(), func(store.Store) error {
			close(running)
			<-finish
			return fsys.Busy
		})
	})
	<-running
	for i := range n {
		wg.Go(func() { errs[i] = d.Put(t.Context(), fmt.Sprintf("%02d", i), nil) })
	}
	for d.Queued() < n {
		runtime.Gosched()
	}
	f()
	close(finish)
	wg.Wait()
	return errs
}

func TestThoseThatWaitAreCommittedTogether(t *testing.T) {
	d := openAt(t, filepath.Join(t.TempDir(), "db"))
	before := d.Commits()
	for i, err := range crowd(t, d, 50, func() {}) {
		if err != nil {
			t.Errorf("%02d: %v", i, err)
		}
	}
	if got := d.Commits() - before; got != 1 {
		t.Errorf("50 transactions that waited took %d commits, want 1", got)
	}
	before = d.Commits()
	for _, f := range []func(store.Store) error{
		func(tx store.Store) error { tx.Put(t.Context(), "a", nil); return fsys.Busy },
		func(tx store.Store) error { _, err := tx.Get(t.Context(), "01"); return err },
	} {
		d.Update(t.Context(), f)
	}
	if got := d.Commits() - before; got != 0 {
		t.Errorf("transactions that store nothing took %d commits, want 0", got)
	}
}

func TestCloseWaitsForWhatIsQueued(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	d := openAt(t, path)
	closed := make(chan error, 1)
	errs := crowd(t, d, 10, func() { go func() { closed <- d.Close() }() })
	if err := <-closed; err != nil {
		t.Error(err)
	}
	d = openAt(t, path)
	for i, err := range errs {
		if err != nil {
			t.Errorf("%02d: %v", i, err)
		}
		if _, err := d.Get(t.Context(), fmt.Sprintf("%02d", i)); err != nil {
			t.Errorf("%02d after reopening: %v", i, err)
		}
	}
}

// TestReadersSeeWhatWasCommitted reads while others write: what an Update has
// returned for is there, whichever read transactions were kept, and a view
// keeps no commit from growing the file.
func TestReadersSeeWhatWasCommitted(t *testing.T) {
	d := openAt(t, filepath.Join(t.TempDir(), "db"))
	if err := d.Put(t.Context(), "n", []byte{0}); err != nil {
		t.Fatal(err)
	}
	var latest atomic.Uint32
	var wg sync.WaitGroup
	done := make(chan struct{})
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				least := latest.Load()
				v, err := d.Get(t.Context(), "n")
				if err != nil || uint32(v[0]) < least {
					t.Errorf("read %v, %v after %d was committed", v, err, least)
					return
				}
			}
		})
	}
	for i := range 100 {
		if err := d.Update(t.Context(), func(tx store.Store) error {
			tx.Put(t.Context(), "large", make([]byte, i<<14))
			return tx.Put(t.Context(), "n", []byte{byte(i)})
		}); err != nil {
			t.Error(err)
		}
		latest.Store(uint32(i))
	}
	close(done)
	wg.Wait()
}

func TestAFunctionThatEndsItsGoroutine(t *testing.T) {
	d := openAt(t, filepath.Join(t.TempDir(), "db"))
	err := d.Update(t.Context(), func(tx store.Store) error {
		tx.Put(t.Context(), "a", nil)
		runtime.Goexit() // as t.FailNow does
		return nil
	})
	if fsys.CodeOf(err) != fsys.Internal {
		t.Errorf("got %v, want Internal", err)
	}
	if err := d.Put(t.Context(), "b", nil); err != nil {
		t.Error(err)
	}
	if page, err := d.List(t.Context(), "", "", 0); err != nil || len(page) != 1 || page[0].Key != "b" {
		t.Errorf("got %v, %v; want only b", page, err)
	}
}

// BenchmarkUpdate reports what one durable transaction costs as a multiple of
// one fsync of the same disk, for one writer and for many at once.
func BenchmarkUpdate(b *testing.B) {
	for _, writers := range []int{1, 64} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			d, err := bolt.Open(filepath.Join(b.TempDir(), "db"))
			if err != nil {
				b.Fatal(err)
			}
			defer d.Close()
			value := make([]byte, 200)
			fsync := fsyncTime(b)
			before := d.Commits()
			b.ResetTimer()
			var wg sync.WaitGroup
			for w := range writers {
				wg.Go(func() {
					for i := w; i < b.N; i += writers {
						if err := d.Put(b.Context(), fmt.Sprintf("agents/a/inbox/%08d", i), value); err != nil {
							b.Error(err)
						}
					}
				})
			}
			wg.Wait()
			b.StopTimer()
			b.ReportMetric(float64(b.Elapsed())/float64(b.N)/float64(fsync), "fsyncs/update")
			b.ReportMetric(float64(b.N)/float64(d.Commits()-before), "updates/commit")
			b.ReportMetric(float64(fsync.Microseconds()), "fsync-µs")
		})
	}
}

// fsyncTime is the median time to append 4 KiB to a file and fsync it.
func fsyncTime(b *testing.B) time.Duration {
	f, err := os.Create(filepath.Join(b.TempDir(), "f"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	var took []time.Duration
	for range 101 {
		start := time.Now()
		if _, err := f.Write(make([]byte, 4096)); err != nil {
			b.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	return took[len(took)/2]
}

// BenchmarkLog is an append of one line to a log, in transactions by one
// writer, and buffered.
func BenchmarkLog(b *testing.B) {
	line := make([]byte, 200)
	for _, c := range []struct {
		name string
		add  func(b *testing.B, d *bolt.DB, l *store.Log) error
	}{
		{"append", func(b *testing.B, d *bolt.DB, l *store.Log) error {
			return d.Update(b.Context(), func(tx store.Store) error { return l.Append(tx, line) })
		}},
		{"buffer", func(_ *testing.B, _ *bolt.DB, l *store.Log) error { return l.Buffer(line) }},
		{"file", nil},
	} {
		b.Run(c.name, func(b *testing.B) {
			fsync := fsyncTime(b)
			d, err := bolt.Open(filepath.Join(b.TempDir(), "db"))
			if err != nil {
				b.Fatal(err)
			}
			defer d.Close()
			l, err := store.OpenLog(b.Context(), store.Sub(d, "log/"))
			if err != nil {
				b.Fatal(err)
			}
			f, err := os.Create(filepath.Join(b.TempDir(), "f"))
			if err != nil {
				b.Fatal(err)
			}
			defer f.Close()
			for b.Loop() {
				if c.add != nil {
					err = c.add(b, d, l)
				} else if _, err = f.Write(line); err == nil {
					err = f.Sync()
				}
				if err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed())/float64(b.N)/float64(fsync), "fsyncs/op")
		})
	}
}
