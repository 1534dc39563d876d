package work_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"agent9/fsys"
	"agent9/namespace/budget"
	"agent9/services/internal/work"
	"agent9/store"
	"agent9/store/check"
	"agent9/store/mem"
)

// An errand is the least that a ledger can have: it costs what it was asked for,
// or all that is held for it if nobody knows.
type errand struct {
	work.Item[record]
	shop *shop
}

type record struct {
	Number int64         `json:"number"`
	Key    string        `json:"key,omitempty"`
	Why    string        `json:"why,omitempty"`
	Ended  time.Time     `json:"ended,omitzero"`
	Hold   string        `json:"hold"`
	Held   budget.Micros `json:"held"`
	Cost   budget.Micros `json:"cost"`
	work.Listing
}

type totals struct {
	work.Sums
	Kept int64 `json:"kept"`
}

var table = work.Table[record, totals]{
	What: "errand",
	Standing: func(r *record) work.Standing {
		return work.Standing{
			Number: r.Number, Listed: r.Entry(""), Key: r.Key, Holds: []string{r.Hold}, Held: r.Held, Spent: r.Cost,
			Open: r.Ended.IsZero(), Ended: r.Ended, Listing: &r.Listing,
		}
	},
	New:  func() totals { return totals{} },
	Sums: func(t *totals) *work.Sums { return &t.Sums },
	Count: func(t *totals, r *record, n int64) {
		if !r.Ended.IsZero() {
			t.Kept += n
		}
	},
}

type ledger = work.Ledger[record, totals, errand, *errand]

func (e *errand) Run()                                                   { e.Finish(nil) }
func (e *errand) Open(context.Context) error                             { return nil }
func (e *errand) Release()                                               {}
func (e *errand) Drop(_ context.Context, _ store.Store, _ *record) error { return nil }
func (e *errand) how(cost func(*record) budget.Micros) work.How[record] {
	return func(_ context.Context, _ store.Store, r *record) (string, error) {
		r.Ended, r.Cost = e.shop.Now(), cost(r)
		return "done", nil
	}
}

func (e *errand) Finish(why error) error {
	err := e.shop.End(context.Background(), e, e.how(func(*record) budget.Micros { return 3 }))
	if err != nil {
		e.shop.Leave(e, func(r *record) { r.Why = err.Error() })
	}
	return err
}

// shop is a program with a ledger, which dies at its event number lives.
type shop struct {
	*testing.T
	ledger
	db      store.Updater
	account *budget.Account
	lives   int
	end     context.CancelFunc
}

var errDead = errors.New("the program has ended")

func open(t *testing.T, db store.Updater, lives int) *shop {
	s := &shop{T: t, db: db, lives: lives}
	note := func(store.Store, string, any) error {
		if s.lives--; s.lives < 0 {
			return errDead
		}
		return nil
	}
	var err error
	if s.account, err = budget.Open(t.Context(), store.Sub(db, "budget/"), budget.Options{Name: "alice"}); err != nil {
		t.Fatal(err)
	}
	var life context.Context
	life, s.end = context.WithCancel(context.Background())
	s.ledger = ledger{
		Table: &table, Service: "shop", Life: life, Store: store.Sub(db, "shop/"), Note: note, Now: time.Now,
		Account: s.account, Allowed: func(context.Context) error { return nil }, Log: slog.Default(),
		Make:    func() *errand { return &errand{shop: s} },
		Ended:   func(_ context.Context, tx store.Store, r *record) error { return note(tx, "shop.ended", r) },
		Old:     func(context.Context, store.Store, time.Duration) (bool, error) { return false, nil },
		Removed: func(r work.Removed) any { return r },
	}
	s.Crew.Limit(2, 100)
	s.Begin()
	err = s.Recover(t.Context(), nil, func(e *errand) work.How[record] {
		return e.how(func(r *record) budget.Micros { return r.Held })
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *shop) submit(key string) (int64, error) {
	ctx := budget.With(s.Context(), s.account)
	return s.Submit(ctx, key, "hash", func() (work.Order[record, errand], error) {
		return work.Order[record, errand]{
			Raw: []byte("go"), Max: 10, TTL: time.Hour,
			Record: func(_ context.Context, tx store.Store, n int64, _ bool, hold func() (*budget.Hold, error)) (*errand, error) {
				h, err := hold()
				if err != nil {
					return nil, err
				}
				return s.Live(s.Life, record{Number: n, Key: key, Hold: h.ID(), Held: h.Max()}), s.Note(tx, "shop.submitted", nil)
			},
		}, nil
	})
}

// holds checks that the store is whole and that the totals, the records and the
// account say the same of money.
func (s *shop) holds(open bool) {
	s.Helper()
	report := check.New()
	err := table.Check(s.Context(), s.Store, report, func(n int64, r *record) error {
		if r.Ended.IsZero() && !open {
			s.Errorf("errand %d has not ended", n)
		}
		return nil
	})
	if err != nil || len(report.All()) > 0 {
		s.Errorf("the store is not whole: %v, %v", report.All(), err)
	}
	t, err := table.Totals(s.Context(), s.Store)
	if err != nil {
		s.Fatal(err)
	}
	u, err := s.account.Usage(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	if t.Held != u.Held || t.Spent != u.Total.Spent {
		s.Errorf("the ledger has %d held and %d spent, and the account %d and %d", t.Held, t.Spent, u.Held, u.Total.Spent)
	}
}

// TestProgramEnds submits, asks again with the same keys and removes in a program
// that ends at each of its events in turn: what the next one finds is whole, and
// every hold is settled once.
func TestProgramEnds(t *testing.T) {
	for lives := range 20 {
		t.Run(fmt.Sprint(lives), func(t *testing.T) {
			db := mem.New()
			s := open(t, db, lives)
			for i := range 5 {
				key := fmt.Sprint("key", i)
				n, err := s.submit(key)
				if err != nil {
					continue
				}
				if again, err := s.submit(key); again != n || err != nil {
					t.Errorf("asked again, errand %d is %d: %v", n, again, err)
				}
				if e, err := s.Find(t.Context(), n); err == nil && i%2 == 0 {
					s.Remove(t.Context(), e, fsys.Canceled)
				}
			}
			if err := s.Crew.Wait(t.Context(), errDead); err != nil {
				t.Fatal(err)
			}
			s.holds(true)
			s.end()

			s = open(t, db, 1000)
			s.holds(false)
			if u, _ := s.account.Usage(t.Context()); u.Held != 0 {
				t.Errorf("%d are still held", u.Held)
			}
			s.end()
		})
	}
}
