package share_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"agent9/fsys/share"
)

func open(t *testing.T, p *share.Pool, caller string, base int64) *share.Part {
	t.Helper()
	part, ok := p.Open(caller, share.Terms{Kind: share.Conns, Base: base})
	if !ok {
		t.Fatalf("%s is not let in", caller)
	}
	return part
}

// fill takes all that the caller can get, and returns how much that was.
func fill(p *share.Part) (n int64) {
	for p.Reserve(share.Data, 4<<10) {
		n += 4 << 10
	}
	return n
}

// Nobody gets more than is left for others, and the operator has a part that
// nobody else can have.
func TestShares(t *testing.T) {
	const limit = 64 << 20
	p := share.NewPool(limit, 0)
	var all []*share.Part
	for i := range 8 {
		all = append(all, open(t, p, fmt.Sprint("token ", i), 1))
		got := fill(all[i])
		if most := int64(limit / 2); got > most || got < 1<<10 {
			t.Errorf("caller %d has %d bytes", i, got)
		}
		another := open(t, p, fmt.Sprint("token ", i), 1)
		if more := fill(another); more > 64<<10 {
			t.Errorf("another connection of caller %d has %d bytes more", i, more)
		}
		another.Close()
	}
	operator := open(t, p, share.Operator, 1)
	if got := fill(operator); got < limit/8/2 {
		t.Errorf("the operator has %d bytes when others have taken the rest", got)
	}
	open(t, p, share.Operator, 100_000).Close() // however much the operator has
	for _, part := range append(all, operator) {
		part.Close()
		part.Close()
	}
	if r := p.Report(); r.Kinds[share.Data] != 0 {
		t.Errorf("after all: %+v", r)
	}
}

// What is taken of a share is what its parts hold, whatever they do at once.
func TestPartsAtOnce(t *testing.T) {
	p := share.NewPool(1<<30, 0)
	part, _ := p.Open("a", share.Terms{Own: 10_000})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for n := range 2_000 {
				if part.Reserve(share.Data, int64(100*i+n)) {
					part.Join(fmt.Sprint("b", n%3))
					part.Give(share.Data, int64(100*i+n))
				}
			}
		})
	}
	wg.Wait()
	if part.Held() != 0 {
		t.Errorf("%d bytes are held", part.Held())
	}
	part.Reserve(share.Data, 50_000)
	if r := p.Report(); r.Callers != 1 || r.Largest < 50_000 || r.Largest > 80_000 {
		t.Errorf("%+v", r)
	}
	part.Close()
	if r := p.Report(); r.Callers != 0 || r.Bytes != 0 {
		t.Errorf("after all: %+v", r)
	}
}

// However many ask at once: what is refused to one gives no other any room.
func TestRefusedAtOnce(t *testing.T) {
	for range 50 {
		p := share.NewPool(16<<20, 0)
		part := open(t, p, "a", 1)
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() { part.Reserve(share.Files, 1<<20) })
		}
		wg.Wait()
		if got := part.Held(); got < 2<<20 || got > 8<<20 {
			t.Fatalf("%d bytes are held of a pool of 16 MiB, by one", got)
		}
		part.Close()
	}
}

// At a full door the one goes that has waited longest without saying whose it
// is; who said it stays, and nobody has more than is left for others.
func TestDoor(t *testing.T) {
	d := share.Door{Max: 4}
	var left []int
	enter := func(i int) (*share.Visit, bool) { return d.Enter(func() { left = append(left, i) }) }
	var all []*share.Visit
	for i := range 4 {
		v, ok := enter(i)
		if !ok {
			t.Fatal("there is room")
		}
		all = append(all, v)
	}
	if !all[0].Known("alice", true) || !all[1].Known("alice", true) {
		t.Error("two of four are refused")
	}
	if all[2].Known("alice", true) {
		t.Error("three of four are one caller's")
	}
	if !all[2].Known("bob", true) {
		t.Error("another caller is refused")
	}
	if _, ok := enter(4); !ok || fmt.Sprint(left) != "[3]" {
		t.Errorf("who had said nothing stays: %v", left)
	}
	all[0].Idle()
	if _, ok := enter(5); !ok || len(left) != 2 {
		t.Errorf("nobody idle goes: %v", left)
	}
	all[1].Leave()
	all[1].Leave()
	if _, ok := enter(6); !ok || len(left) != 2 {
		t.Errorf("there is no room where one has left: %v", left)
	}
}

// When the memory for connections that have not said whose they are is short,
// the oldest of them goes, through whatever door it came; who has said it stays.
func TestStrangersMakeRoom(t *testing.T) {
	p := share.NewPool(1<<20, 0)
	doors := []*share.Door{{Max: 1000, Pool: p}, {Max: 1000, Pool: p}}
	terms := share.Terms{Kind: share.Conns, Base: 24 << 10}
	var left []int
	enter := func(i int) (*share.Visit, *share.Part) {
		v, part, err := doors[i%2].Admit(share.Stranger, terms, func() { left = append(left, i) })
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		return v, part
	}
	v, part := enter(0)
	if !part.Join("alice") || !v.Known("alice", true) {
		t.Fatal("the first is refused")
	}
	for i := 1; i < 200; i++ {
		enter(i)
	}
	if len(left) < 150 || len(left) > 195 {
		t.Errorf("%d were sent away", len(left))
	}
	for i, n := range left {
		if n != i+1 {
			t.Fatalf("not the oldest go: %v", left)
		}
	}
	if r := p.Report(); r.Largest > 1<<19 {
		t.Errorf("who says nothing has %d bytes", r.Largest)
	}
}

// Who has taken all it can get makes one thing at a time.
func TestMake(t *testing.T) {
	p := share.NewPool(16<<20, 0)
	a := open(t, p, "a", 1)
	var done []func()
	for range 20 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		d, err := a.Make(ctx)
		cancel()
		if err != nil {
			break
		}
		done = append(done, d)
	}
	if n := len(done); n < 3 || n > 8 {
		t.Errorf("%d are made at once", n)
	}
	done[len(done)-1]() // which went on without room
	last, err := a.Make(t.Context())
	if err != nil {
		t.Errorf("the next one: %v", err)
	}
	last()
	for _, d := range done[:len(done)-1] {
		d()
	}
	if a.Held() != 0 {
		t.Errorf("%d bytes are held", a.Held())
	}
}

// However many are refused at once, who asks for little gets it at once.
func TestTheRefusedTakeNothing(t *testing.T) {
	p := share.NewPool(16<<20, 0)
	a := open(t, p, "a", 1)
	for a.Reserve(share.Data, 1<<20) {
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			for ctx.Err() == nil {
				a.Reserve(share.Data, 16<<20)
			}
		})
	}
	for i := range 50_000 {
		b, ok := p.Open("b", share.Terms{Kind: share.Conns, Base: 1})
		if !ok || !b.Reserve(share.Data, 8<<10) {
			t.Errorf("b's %d-th is refused", i)
			break
		}
		b.Close()
	}
	cancel()
	wg.Wait()
}
