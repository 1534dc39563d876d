package share

import (
	"container/list"
	"sync"

	"agent9/fsys"
)

// A Door lets in as many connections as there is room for. When there is none,
// the one that has been there for longest without saying whose it is, or with
// nothing to do, goes.
type Door struct {
	Max  int
	Pool *Pool // bounds the connections of all doors together; nil: nothing does
	Ours bool  // it is the operator's: the pool's bound is not for it

	mu    sync.Mutex
	in    int
	idle  list.List      // of *Visit, that may be sent away
	known map[string]int // connections that are not idle, by caller
	busy  int            // the sum of known
}

// A Visit is a connection that was let in.
type Visit struct {
	door   *Door
	leave  func()
	part   *Part // nil: not yet, or it has none
	caller string
	at     *list.Element // nil: it may not be sent away
	among  *list.Element // of the pool's strangers; that list's mu guards it
	gone   bool
}

// ErrManyConns is why a connection is not let in.
var ErrManyConns = fsys.E(fsys.Busy, "too many connections; agentd --max-connections allows more")

// Enter lets a connection in. leave is called, once at most, if it has to go.
func (d *Door) Enter(leave func()) (*Visit, bool) {
	d.mu.Lock()
	var sent *Visit
	if d.full() {
		oldest := d.idle.Front()
		if oldest == nil {
			d.mu.Unlock()
			return nil, false
		}
		sent = oldest.Value.(*Visit)
		d.gone(sent)
	}
	v := &Visit{door: d, leave: leave}
	v.at = d.idle.PushBack(v)
	d.in++
	if d.Pool != nil && !d.Ours {
		d.Pool.conns.Add(1)
	}
	d.mu.Unlock()
	if sent != nil {
		sent.away()
	}
	return v, true
}

func (d *Door) full() bool {
	return d.in >= d.Max || d.Pool != nil && !d.Ours && d.Pool.maxConns > 0 && int(d.Pool.conns.Load()) >= d.Pool.maxConns
}

// Known says whose the connection is, which then stays. It is false if the
// caller has as many connections as are left for others; a caller without a
// name, and one that has a door of its own, is not bounded by that.
func (v *Visit) Known(caller string, bounded bool) bool {
	d := v.door
	d.mu.Lock()
	defer d.mu.Unlock()
	if v.gone {
		return false
	}
	if v.at == nil && v.caller == caller {
		return true
	}
	d.Pool.meet(v)
	d.settle(v)
	if bounded && d.known[caller] >= d.Max-d.busy {
		v.at = d.idle.PushBack(v)
		return false
	}
	v.caller = caller
	if d.known == nil {
		d.known = map[string]int{}
	}
	d.known[caller]++
	d.busy++
	return true
}

// Idle says that the connection has nothing to do.
func (v *Visit) Idle() {
	d := v.door
	d.mu.Lock()
	defer d.mu.Unlock()
	if !v.gone && v.at == nil {
		d.settle(v)
		v.at = d.idle.PushBack(v)
	}
}

// Leave says that the connection has ended.
func (v *Visit) Leave() {
	v.door.mu.Lock()
	defer v.door.mu.Unlock()
	v.door.gone(v)
}

// settle takes v out of the idle and of the known. mu is held.
func (d *Door) settle(v *Visit) {
	if v.at != nil {
		d.idle.Remove(v.at)
		v.at = nil
		return
	}
	d.busy--
	if d.known[v.caller]--; d.known[v.caller] == 0 {
		delete(d.known, v.caller)
	}
}

func (d *Door) gone(v *Visit) {
	if v.gone {
		return
	}
	v.gone = true
	d.Pool.meet(v)
	d.settle(v)
	d.in--
	if d.Pool != nil && !d.Ours {
		d.Pool.conns.Add(-1)
	}
}
