package models_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"agent9/fsys"
	"agent9/namespace/budget"
	"agent9/providers/models"
	"agent9/providers/models/fake"
	"agent9/store"
	"agent9/store/mem"
)

func held(t *testing.T) *budget.Hold {
	t.Helper()
	db := mem.New()
	a, err := budget.Open(t.Context(), db, budget.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var hold *budget.Hold
	err = db.Update(t.Context(), func(tx store.Store) error {
		hold, err = budget.Take(budget.With(t.Context(), a), tx, 1000, "a test")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return hold
}

func TestHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, hold := models.NewRunner("r", &fake.Provider{}), held(t)
		run := func(ctx context.Context, script string, emit func(models.Chunk) error) error {
			_, err := r.Run(ctx, hold, models.Ask("fake", script), emit)
			return err
		}
		ok := func(models.Chunk) error { return nil }
		gone, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for _, err := range []error{
			run(t.Context(), "fail invalid no", ok),
			run(t.Context(), "fail not-found no", ok),
			run(gone, "wait for ever", ok),
			run(t.Context(), "x", func(models.Chunk) error { return fsys.E(fsys.Unavailable, "the disk") }),
		} {
			if err == nil || r.Health().Failures != 0 || !r.Ready() {
				t.Errorf("%v: %+v", err, r.Health())
			}
		}
		// Each failure sets it aside for twice as long, up to a minute.
		most := time.Second
		for n := 1; n <= 9; n++ {
			if err := run(t.Context(), "fail provider down", ok); fsys.CodeOf(err) != fsys.Unavailable {
				t.Fatal(err)
			}
			aside := time.Until(r.Health().Until)
			if r.Health().Failures != n || aside < most/2 || aside > most || r.Ready() {
				t.Errorf("failure %d: %+v, aside for %v, want %v to %v", n, r.Health(), aside, most/2, most)
			}
			most = min(most*2, time.Minute)
			<-time.After(aside)
			if !r.Ready() {
				t.Errorf("after %v it is not tried", aside)
			}
			if r.Ready() {
				t.Error("two try it at once")
			}
		}
		if err := run(t.Context(), "fine", ok); err != nil || !r.Ready() || r.Health() != (models.Health{}) {
			t.Errorf("%v: %+v", err, r.Health())
		}
	})
}

func TestBackoff(t *testing.T) {
	for n, want := range map[int]time.Duration{-1: 1, 0: 1, 1: 1, 2: 2, 3: 4, 4: 8, 5: 10, 40: 10, 1 << 40: 10} {
		want *= time.Second
		for range 100 {
			if d := models.Backoff(time.Second, 10*time.Second, n); d < want/2 || d > want {
				t.Fatalf("failure %d: %v, want %v to %v", n, d, want/2, want)
			}
		}
	}
}

func TestLatency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &fake.Provider{List: []models.Model{{Name: "*"}}}
		r, hold := models.NewRunner("r", p), held(t)
		took := func(model string, first, rest time.Duration) {
			t.Helper()
			begun := make(chan error)
			go func() {
				_, err := r.Run(t.Context(), hold, models.Ask(model, "wait "+model+";x;wait "+model+"2"), func(models.Chunk) error { return nil })
				begun <- err
			}()
			<-time.After(first)
			p.Open(model)
			<-time.After(rest)
			p.Open(model + "2")
			if err := <-begun; err != nil {
				t.Fatal(err)
			}
		}
		took("m", 4*time.Second, 4*time.Second)
		if _, err := r.Run(t.Context(), hold, models.Ask("m", "x"), func(models.Chunk) error { return nil }); err != nil {
			t.Fatal(err)
		}
		l, ok := r.Latency("m")
		if want := 3 * time.Second; !ok || l.First.Round(time.Millisecond) != want || l.Total.Round(time.Millisecond) != 2*want || l.Runs != 2 {
			t.Errorf("got %+v", l)
		}
		if _, err := r.Run(t.Context(), hold, models.Ask("m", "fail provider x"), nil); err == nil {
			t.Fatal("did not fail")
		}
		if l, _ := r.Latency("m"); l.Runs != 2 {
			t.Errorf("a failure is measured: %+v", l)
		}
		for i := range 100 {
			took(fmt.Sprint(i), 0, 0)
		}
		if _, ok := r.Latency("m"); ok || len(r.Latencies()) != 64 || r.Latencies()[0].Model != "99" {
			t.Errorf("%d models are measured", len(r.Latencies()))
		}
		<-time.After(11 * time.Minute)
		if _, ok := r.Latency("99"); ok {
			t.Error("an old measurement counts")
		}
	})
}

func TestTransient(t *testing.T) {
	for err, want := range map[error]bool{
		nil: false, fsys.Unavailable: true, fsys.Busy: true, fsys.Timeout: true, errors.New("x"): true,
		fsys.Invalid: false, fsys.Canceled: false, fsys.Exhausted: false, fsys.NotExist: false, context.Canceled: false,
	} {
		if got := models.Transient(err); got != want {
			t.Errorf("%v: %v", err, got)
		}
	}
}
