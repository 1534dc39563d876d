package share

import (
	"container/list"
	"sync"
)

// strangers are the connections that have not said whose they are, of all doors
// of a pool, those first that came first.
type strangers struct {
	mu   sync.Mutex
	list list.List // of *Visit
}

// mostSent is how many have to go at most for one that comes: one of HTTP takes
// less than one of 9P in TLS.
const mostSent = 4

// Admit lets a connection in and opens its part, which Leave does not close.
// Where the number or the memory of those is short that have not said whose they
// are, the one goes that has been there for longest, through whatever door it came.
func (d *Door) Admit(by string, t Terms, leave func()) (*Visit, *Part, error) {
	v, ok := d.Enter(leave)
	if !ok {
		return nil, nil, ErrManyConns
	}
	part, ok := d.Pool.Open(by, t)
	for n := 0; !ok && n < mostSent && by == Stranger && d.Pool.sendOne(); n++ {
		part, ok = d.Pool.Open(by, t)
	}
	if !ok {
		v.Leave()
		return nil, nil, ErrFull
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if v.gone {
		part.Close()
		return nil, nil, ErrManyConns
	}
	if v.part = part; by == Stranger && d.Pool != nil {
		s := &d.Pool.strangers
		s.mu.Lock()
		v.among = s.list.PushBack(v)
		s.mu.Unlock()
	}
	return v, part, nil
}

// sendOne sends the stranger away that has been there for longest.
func (p *Pool) sendOne() bool {
	for p != nil {
		p.strangers.mu.Lock()
		first := p.strangers.list.Front()
		p.strangers.mu.Unlock()
		if first == nil {
			return false
		}
		v := first.Value.(*Visit)
		v.door.mu.Lock()
		sent := !v.gone && v.at != nil
		if sent {
			v.door.gone(v)
		}
		v.door.mu.Unlock()
		if sent {
			v.away()
			return true
		}
	}
	return false
}

// away ends v, which is gone. Its memory is free at once for newcomers.
func (v *Visit) away() {
	v.leave()
	v.part.Close()
}

// meet says that v is no stranger any more.
func (p *Pool) meet(v *Visit) {
	if p == nil {
		return
	}
	p.strangers.mu.Lock()
	defer p.strangers.mu.Unlock()
	if v.among != nil {
		p.strangers.list.Remove(v.among)
		v.among = nil
	}
}
