package budget_test

import (
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"agent9/fsys"
	"agent9/namespace/budget"
	"agent9/store"
	"agent9/store/bolt"
	"agent9/store/mem"
)

func TestParents(t *testing.T) {
	b := newBank(t, mem.New())
	org := b.open("org", total(100))
	team := b.open("team", budget.Limits{Total: new(budget.Micros(80)), Parent: "org"})
	alice := b.open("alice", budget.Limits{Total: new(budget.Micros(60)), Parent: "team"})
	bob := b.open("bob", budget.Limits{Parent: "team"})

	ha := b.mustTake(alice, 50)
	for _, a := range []*budget.Account{alice, team, org} {
		b.want(a, 50, 0, 0, 0)
	}
	b.refused(bob, 31, "the work may cost $0.000031, and $0.00003 is left in total in account team")
	b.settle(b.mustTake(org, 30), 30)
	b.refused(bob, 21, "the work may cost $0.000021, and $0.00002 is left in total in account org")
	b.want(bob, 0, 0, 0, 0) // from all or from none
	b.want(team, 50, 0, 0, 0)
	for a, want := range map[*budget.Account]budget.Micros{alice: 10, bob: 20, team: 20, org: 20} {
		left, err := a.Left(t.Context())
		b.must(err)
		if u := b.usage(a); left == nil || *left != want || u.Left == nil || *u.Left != want || u.Overdrawn {
			t.Errorf("%s: left is %v, and %v in usage, want %d", a.Name(), left, u.Left, want)
		}
	}
	if err := b.admit(bob); err != nil {
		t.Errorf("Admit: got %v", err)
	}
	hb := b.mustTake(bob, 20)
	if err := b.admit(bob); fsys.ReasonOf(err) != "nothing is left in total in account org" {
		t.Errorf("Admit: got %v", err)
	}

	// Who moves to another parent settles where the money was held.
	b.must(fsys.WriteFile(t.Context(), alice.Root(), "limits", []byte(`{"total_microusd": 60}`)))
	ha, err := alice.Resume(t.Context(), ha.ID())
	b.must(err)
	b.settle(ha, 5)
	b.want(alice, 0, 5, 5, 5)
	b.want(team, 20, 5, 5, 5)
	b.want(org, 20, 35, 35, 35)
	delete(b.accounts, "org") // what held money is gone: the rest is settled
	b.settle(hb, 20)
	b.want(team, 0, 25, 25, 25)
	b.want(bob, 0, 20, 20, 20)
	if _, err := b.take(bob, 1); fsys.CodeOf(err) != fsys.NotExist {
		t.Errorf("Take below an account that is gone: got %v, want NotExist", err)
	}
	if u := b.usage(bob); u.Left == nil || *u.Left != 0 {
		t.Errorf("below an account that is gone %v is left, want 0", u.Left)
	}
	ledger := b.ledger(team)
	if !strings.Contains(ledger, `"kind":"settle","hold":"1","account":"alice","max_microusd":50,"cost_microusd":5,"what":"job 7","reason":"done"`) {
		t.Errorf("the team's ledger does not say whose work it was:\n%s", ledger)
	}
}

func TestAboveItself(t *testing.T) {
	b := newBank(t, mem.New())
	a, c := b.open("a", budget.Limits{}), b.open("c", budget.Limits{Parent: "a"})
	for doc, reason := range map[string]string{
		`{"parent": "c"}`:    `account "a" is its own ancestor, or has more than 8 accounts above it`,
		`{"parent": "a"}`:    `account "a" is its own ancestor, or has more than 8 accounts above it`,
		`{"parent": "none"}`: `the parent account "none"`,
	} {
		err := fsys.WriteFile(t.Context(), a.Root(), "limits", []byte(doc))
		if fsys.CodeOf(err) != fsys.Invalid || fsys.ReasonOf(err) != reason {
			t.Errorf("%s: got %v, want Invalid: %s", doc, err, reason)
		}
	}
	b.mustTake(c, 1)
	b.want(a, 1, 0, 0, 0)
}

func TestRestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	d, err := bolt.Open(path)
	b := newBank(t, d)
	b.must(err)
	a := b.open("alice", total(100))
	done, open := b.mustTake(a, 30), b.mustTake(a, 40)
	b.settle(done, 30)
	ledger := b.ledger(a)
	b.must(d.Close())

	d, err = bolt.Open(path)
	b.must(err)
	t.Cleanup(func() { d.Close() })
	b = newBank(t, d)
	a = b.open("alice", total(100))
	b.want(a, 40, 30, 30, 30)
	if got := b.ledger(a); got != ledger {
		t.Errorf("the ledger was\n%sand is\n%s", ledger, got)
	}
	holds, err := a.Holds(t.Context())
	b.must(err)
	if len(holds) != 1 || holds[0].ID() != open.ID() || holds[0].Max() != 40 || holds[0].What() != "job 7" {
		t.Fatalf("got holds %v, want the open one", holds)
	}
	if _, err := a.Resume(t.Context(), done.ID()); !errors.Is(err, fsys.NotExist) {
		t.Errorf("Resume of what was settled: got %v, want NotExist", err)
	}
	h, err := a.Resume(t.Context(), open.ID())
	b.must(err)
	b.settle(h, 10)
	b.settle(holds[0], 10) // the same one
	b.want(a, 0, 40, 40, 40)
	if h := b.mustTake(a, 60); h.ID() != "3" {
		t.Errorf("got id %s, want 3", h.ID())
	}
}

func TestManyAtOnce(t *testing.T) {
	for name, open := range map[string]func(*testing.T) store.Updater{
		"mem": func(*testing.T) store.Updater { return mem.New() },
		"bolt": func(t *testing.T) store.Updater {
			d, err := bolt.Open(filepath.Join(t.TempDir(), "db"))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { d.Close() })
			return d
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBank(t, open(t))
			b.open("team", total(50*7))
			a := b.open("alice", budget.Limits{Parent: "team"})
			var got, refused atomic.Int32
			var wg sync.WaitGroup
			for range 200 {
				wg.Go(func() {
					h, err := b.take(a, 7)
					switch {
					case err == nil:
						got.Add(1)
						b.settle(h, 7)
					case fsys.CodeOf(err) == fsys.Exhausted:
						refused.Add(1)
					default:
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if got.Load() != 50 || refused.Load() != 150 {
				t.Errorf("%d were paid and %d refused, want 50 and 150", got.Load(), refused.Load())
			}
			b.want(a, 0, 350, 350, 350)
			b.want(b.accounts["team"], 0, 350, 350, 350)
			b.replay(a)
			b.replay(b.accounts["team"])
		})
	}
}
