package compute_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"agent9/fsys"
	"agent9/providers/models/fake"
	"agent9/services/compute"
	"agent9/store"
	"agent9/store/bolt"
	"agent9/store/mem"
)

// counting is a database that counts what is read from it.
type counting struct {
	store.Updater
	gets, lists, pairs atomic.Int64
}

func (c *counting) Get(ctx context.Context, key string) ([]byte, error) {
	c.gets.Add(1)
	return c.Updater.Get(ctx, key)
}

func (c *counting) List(ctx context.Context, prefix, after string, n int) ([]store.Pair, error) {
	page, err := c.Updater.List(ctx, prefix, after, n)
	c.lists.Add(1)
	c.pairs.Add(int64(len(page)))
	return page, err
}

// reads are how many operations f needs.
func (c *counting) reads(f func()) (gets, lists, pairs int64) {
	c.gets.Store(0)
	c.lists.Store(0)
	c.pairs.Store(0)
	f()
	return c.gets.Load(), c.lists.Load(), c.pairs.Load()
}

// finished fills the database, in which job 1 has ended, with copies of it as
// jobs from to n.
func finished(tb testing.TB, db store.Updater, from, n int) {
	ctx, view := tb.Context(), store.Sub(db, "compute/")
	first := fmt.Sprintf("%016d", 1)
	var parts []store.Pair
	for _, prefix := range []string{"rec/", "req/", "res/", "list/", "out/", "chunks/"} {
		page, err := view.List(ctx, prefix+first, "", 0)
		if err != nil {
			tb.Fatal(err)
		}
		parts = append(parts, page...)
	}
	err := view.Update(ctx, func(tx store.Store) error {
		for i := from; i <= n; i++ {
			for _, p := range parts {
				value := strings.Replace(string(p.Value), `"number":1,`, fmt.Sprintf(`"number":%d,`, i), 1)
				if err := tx.Put(ctx, strings.Replace(p.Key, first, fmt.Sprintf("%016d", i), 1), []byte(value)); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		tb.Fatal(err)
	}
}

// A job is as few look-ups away with a thousand others as with one.
func TestOneLookUpAway(t *testing.T) {
	var before [3]int64
	for _, n := range []int{2, 2000} {
		db := &counting{Updater: mem.New()}
		d := newDeskOn(t, db, &fake.Provider{})
		d.ended(d.ask("use 1 1;x"), compute.Done, 20)
		finished(t, db, 2, n)
		jobs, err := fsys.Walk(d.ctx, d.svc.Root(), "jobs")
		d.must(err)
		gets, lists, _ := db.reads(func() {
			_, err := fsys.Walk(d.ctx, jobs, fmt.Sprint(n))
			d.must(err)
		})
		if gets != 1 || lists != 0 {
			t.Errorf("a walk among %d jobs: %d look-ups, %d lists", n, gets, lists)
		}
		var now [3]int64
		now[0], now[1], now[2] = db.reads(func() { d.read(fmt.Sprintf("jobs/%d/output", n)) })
		if before != [3]int64{} && now != before {
			t.Errorf("reading a job among %d takes %v, among few %v", n, now, before)
		}
		before = now
		gets, lists, pairs := db.reads(func() {
			list, err := fsys.List(d.ctx, jobs)
			if err != nil || len(list) != n || list[n-1].Name != fmt.Sprint(n) {
				t.Errorf("%d of %d jobs are listed: %v", len(list), n, err)
			}
		})
		if gets != 0 || lists > int64(n)/256+3 || pairs != int64(n) {
			t.Errorf("listing %d jobs: %d look-ups, %d lists, %d pairs", n, gets, lists, pairs)
		}
	}
}

// BenchmarkJobs has 100,000 jobs that have ended.
func BenchmarkJobs(b *testing.B) {
	db, err := bolt.Open(filepath.Join(b.TempDir(), "db"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { db.Close() })
	s, ctx := benchService(b, db, &fake.Provider{})
	if _, err := fsys.Converse(ctx, s.Root(), "new", []byte("use 1 1;x")); err != nil {
		b.Fatal(err)
	}
	if _, err := fsys.ReadFile(ctx, s.Root(), "jobs/1/result"); err != nil {
		b.Fatal(err)
	}
	have := 1
	for _, n := range []int{1000, 100_000} {
		finished(b, db, have+1, n)
		have = n
		jobs, err := fsys.Walk(ctx, s.Root(), "jobs")
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("walk/%d", n), func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				if _, err := fsys.Walk(ctx, jobs, fmt.Sprint(i*7919%n+1)); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("list/%d", n), func(b *testing.B) {
			for b.Loop() {
				if list, err := fsys.List(ctx, jobs); err != nil || len(list) != n {
					b.Fatal(len(list), err)
				}
			}
		})
	}
}
