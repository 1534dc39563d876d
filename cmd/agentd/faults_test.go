package main

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"agent9/fsys"
	"agent9/store/bolt"
	"agent9/store/faulty"
)

// A badDisk fails now and then, at the moments that it is told, and is slow.
type badDisk struct {
	mu     sync.Mutex
	rng    *rand.Rand
	one    int // in so many moments fails
	at     map[faulty.Moment]bool
	broken bool // after a lost answer nothing is written
}

var errBadDisk = []error{
	fsys.E(fsys.Unavailable, "the disk fails on purpose"),
	fsys.E(fsys.NoSpace, "the disk is full on purpose"),
}

func (b *badDisk) fault(at faulty.Moment) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if at != faulty.Read && b.broken {
		return errBadDisk[0]
	}
	if at == faulty.Write && b.rng.IntN(4) == 0 {
		time.Sleep(time.Duration(b.rng.IntN(3000)) * time.Microsecond)
	}
	if !b.at[at] || b.rng.IntN(b.one) > 0 {
		return nil
	}
	if at == faulty.Synced {
		b.broken = true
		return errBadDisk[0]
	}
	return errBadDisk[b.rng.IntN(len(errBadDisk))]
}

// What was acknowledged stays, what was refused never was, and everything
// works again, whatever of a disk fails; also when the fault is that nobody
// knows whether it was written, and the daemon begins again.
func TestFaults(t *testing.T) {
	seed := fromEnv(seedVar, uint64(time.Now().UnixNano()))
	t.Logf("%s=%d", seedVar, seed)
	for _, c := range []struct {
		what string
		at   []faulty.Moment
	}{
		{"reads fail", []faulty.Moment{faulty.Read}},
		{"writes fail", []faulty.Moment{faulty.Begin, faulty.Write}},
		{"all fails", []faulty.Moment{faulty.Read, faulty.Begin, faulty.Write}},
		{"answers are lost", []faulty.Moment{faulty.Synced}},
	} {
		t.Run(c.what, func(t *testing.T) { faults(t, seed, c.at) })
	}
}

func faults(t *testing.T, seed uint64, at []faulty.Moment) {
	db, err := bolt.Open(filepath.Join(t.TempDir(), "db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	st := faulty.New(db)
	in := newInside(t, st)
	in.start()
	defer func() { in.stop() }()
	r := in.Root()
	bad := &badDisk{rng: rand.New(rand.NewPCG(seed, 1)), one: 12, at: map[faulty.Moment]bool{}}
	for _, m := range at {
		bad.at[m] = true
	}
	rng := rand.New(rand.NewPCG(seed, 2))
	var all []*promised
	for _, one := range keeps() {
		if one.name == "PromptsAnswered" { // an answer may fail
			continue
		}
		p := &promised{T: t, promise: one, d: in.Daemon, rng: rng}
		r.Agent(p.name, "{"+p.more+"}")
		if p.begins != nil {
			p.begins(p, r)
		}
		all = append(all, p)
	}
	failures := 0
	for n := 0; n < 250 && !t.Failed(); n++ {
		p := all[rng.IntN(len(all))]
		st.Inject(bad.fault)
		err := p.act(p, r, p.tries)
		st.Inject(nil)
		p.tries++
		switch code := fsys.CodeOf(err); {
		case err == nil:
			p.kept = append(p.kept, p.tries-1)
			continue
		case code == fsys.Busy:
			continue
		case code != fsys.Unavailable && code != fsys.NoSpace:
			t.Errorf("%s: %v", p.name, err)
		}
		failures++
		if bad.broken { // a daemon that cannot write is begun again
			in.stop()
			bad.broken = false
			in.start()
			r = in.Root()
		}
		t.Run(fmt.Sprintf("%s/%d", p.name, n), func(t *testing.T) {
			p.T = t
			p.holds(p, r.As(t))
			p.T = in.T
		})
	}
	if failures < 10 {
		t.Errorf("only %d things failed", failures)
	}
	for range 2 {
		for _, p := range all {
			p.T = t
			p.holds(p, r)
		}
		in.stop()
		in.start()
		r = in.Root()
	}
}
