package share

import (
	"sync"
	"sync/atomic"
)

// A Part is what one connection or one request makes the daemon keep. A nil
// Part has room for everything and counts nothing.
type Part struct {
	Terms
	gate
	pool *Pool // nil: there is no other bound than the limit
	held atomic.Int64
	kind [kinds]atomic.Int64

	Fids     atomic.Int32 // files that it has by a number
	Requests atomic.Int32 // that are under way

	covered  atomic.Int64 // of held, by what is taken of the share; changes with settling held
	settling sync.Mutex
	share    *share
}

// step is how many bytes are taken of a share together, so that what is small
// costs others nothing.
const step = 4 << 10

// little is how much a part may hold of what a share keeps free for those that
// hold no more.
const little = 64 << 10

// Terms say what a part is for.
type Terms struct {
	Speaks string // "9p", "http" …
	Kind   Kind   // of Base
	Base   int64  // what it takes by itself
	Own    int64  // taken with Base, so that there always is room for so much
	Limit  int64  // of all but Base; 0: only the share bounds it
}

// Open returns a part for the caller, or nil and false if there is no room. A
// nil Pool gives a part that only its limit bounds.
func (p *Pool) Open(caller string, t Terms) (*Part, bool) {
	part := &Part{Terms: t, pool: p}
	part.kind[t.Kind].Add(t.Base)
	if p == nil {
		return part, true
	}
	part.share = p.find(caller)
	part.covered.Store(t.Own)
	if !part.share.take(part.taken(), true) {
		part.share.leave()
		return nil, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.parts[part] = struct{}{}
	return part, true
}

// taken is what p takes of its share.
func (p *Part) taken() int64 { return p.Base + p.covered.Load() }

// Join makes p the caller's, with all that it has, if there is room for that in
// the caller's share.
func (p *Part) Join(caller string) bool {
	if p == nil || p.pool == nil {
		return true
	}
	p.settling.Lock()
	defer p.settling.Unlock()
	from := p.share
	if from == nil || from.key == caller {
		return from != nil
	}
	to := p.pool.find(caller)
	from.charge(-p.taken()) // before, as it is the same bytes
	if !to.take(p.taken(), true) {
		from.charge(p.taken())
		to.leave()
		return false
	}
	p.share = to
	from.leave()
	return true
}

// Close gives back everything. What is charged later is not counted.
func (p *Part) Close() {
	if p == nil || p.pool == nil {
		return
	}
	p.settling.Lock()
	defer p.settling.Unlock()
	if p.share == nil {
		return
	}
	p.share.charge(-p.taken())
	p.share.leave()
	p.share = nil
	p.pool.mu.Lock()
	defer p.pool.mu.Unlock()
	delete(p.pool.parts, p)
}

// Reserve takes n bytes if there is room for them. Held counts only what was
// taken: what is asked for and refused gives nobody else room.
func (p *Part) Reserve(k Kind, n int64) bool {
	if p == nil {
		return true
	}
	for {
		held := p.held.Load()
		if p.Limit > 0 && held+n > p.Limit {
			return false
		}
		if held+n > p.covered.Load() && !p.cover(n) {
			return false
		}
		if p.held.CompareAndSwap(held, held+n) {
			p.kind[k].Add(n)
			return true
		}
	}
}

// Charge takes n bytes that are held already; those less than 0 are given back.
func (p *Part) Charge(k Kind, n int64) {
	if p == nil || n == 0 {
		return
	}
	p.kind[k].Add(n)
	held, covered := p.held.Add(n), p.covered.Load()
	if held > covered || covered > max(p.Own, held+4*step) {
		p.settle()
	}
	if n < 0 {
		p.wake()
	}
}

// Give gives n bytes back.
func (p *Part) Give(k Kind, n int64) { p.Charge(k, -n) }

// Held returns how many bytes are taken, but for Base.
func (p *Part) Held() int64 {
	if p == nil {
		return 0
	}
	return p.held.Load()
}

// cover takes of the share what p needs to hold n bytes more, if there is room.
func (p *Part) cover(n int64) bool {
	if p.pool == nil {
		return true
	}
	p.settling.Lock()
	defer p.settling.Unlock()
	covered, want := p.covered.Load(), p.steps(p.held.Load()+n)
	switch {
	case p.share == nil:
		return false
	case want <= covered:
		return true
	case !p.share.take(want-covered, want <= little):
		return false
	}
	p.covered.Store(want)
	return true
}

// steps is what is taken of a share for so much.
func (p *Part) steps(held int64) int64 { return max(p.Own, (held+step-1)/step*step) }

// settle takes of the share what p holds and has not taken, and gives back what
// it does not hold any more.
func (p *Part) settle() {
	if p.pool == nil {
		return
	}
	p.settling.Lock()
	defer p.settling.Unlock()
	for p.share != nil {
		want := p.steps(p.held.Load())
		p.share.charge(want - p.covered.Load())
		p.covered.Store(want)
		if p.held.Load() <= want { // else more was taken meanwhile, which saw what had been covered
			return
		}
	}
}

// Use is what clients have at one moment.
type Use struct {
	Conns    int // connections, without those that are turned away
	Fids     int
	Requests int   // under way
	Bytes    int64 // that are kept for them
}

// A Report is what all clients have.
type Report struct {
	Speaks  map[string]Use // by what they speak
	Kinds   [kinds]int64   // bytes by kind
	Bytes   int64
	Callers int
	Largest int64 // of the callers' shares, with what their connections may have without asking
}

// Report returns what clients have now. Numbers that change meanwhile are those
// of about now.
func (p *Pool) Report() (r Report) {
	if p == nil {
		return r
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	r.Speaks, r.Callers = map[string]Use{}, len(p.shares)
	for _, s := range p.shares {
		r.Largest = max(r.Largest, s.held.Load())
	}
	for part := range p.parts {
		u := r.Speaks[part.Speaks]
		if part.Terms.Kind == Conns {
			u.Conns++
		}
		u.Fids += int(part.Fids.Load())
		u.Requests += int(part.Requests.Load())
		for k := range kinds {
			n := part.kind[k].Load()
			u.Bytes, r.Bytes, r.Kinds[k] = u.Bytes+n, r.Bytes+n, r.Kinds[k]+n
		}
		r.Speaks[part.Speaks] = u
	}
	return r
}
