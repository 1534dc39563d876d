package ninep

import (
	"sync/atomic"
	"time"

	"agent9/fsys"
)

// maxBrief is about how long a request that who leads performs itself may keep
// everything else of its connection waiting.
const maxBrief = time.Millisecond

// A lead is what tells whether who leads is stuck in a request.
type lead struct {
	now   atomic.Uint64 // the number of the request that who leads performs; 0: none
	last  uint64        // number given; who leads has it
	timed atomic.Bool   // the timer will fire, and will see what now is
	timer *time.Timer
	seen  uint64 // the timer's: what now was when it last fired
}

// perform performs r, which is brief, and reports whether the caller still
// leads afterwards.
func (c *conn) perform(r *request) (leads bool) {
	l := &c.lead
	l.last++
	number := l.last // from here on another one may lead
	l.now.Store(number)
	if !l.timed.Load() && l.timed.CompareAndSwap(false, true) {
		l.timer.Reset(maxBrief)
	}
	r.run()
	return l.now.CompareAndSwap(number, 0)
}

// look is called by the timer, as long as there is something to see each time:
// if who leads is at the same request as last time, another worker leads from
// now on.
func (c *conn) look() {
	l := &c.lead
	now := l.now.Load()
	if now != 0 && now == l.seen && l.now.CompareAndSwap(now, 0) {
		c.hand(job{}) // before the last leader ends, so c.work is open
		now = 0
	}
	if l.seen = now; now != 0 {
		l.timer.Reset(maxBrief)
		return
	}
	l.timed.Store(false)
	if l.now.Load() != 0 && l.timed.CompareAndSwap(false, true) {
		l.timer.Reset(maxBrief)
	}
}

// brief reports whether r is of those that are over soon as a rule: it waits
// for nobody, and writes nothing to a disk. The session's mu is held.
func (r *request) brief() bool {
	f := r.fid
	switch r.op {
	case twalk, tgetattr, tstat, tstatfs, treaddir, txattrwalk:
		return true
	case tread:
		return f.kind == fsys.File || f.kind == fsys.Directory
	case topen, tlopen:
		kind := kindOf(f.at.qid.Type)
		o, err := r.openMode()
		return err == nil && o == openMode{flag: fsys.Read, dirOnly: o.dirOnly} && (kind == fsys.File || kind == fsys.Directory)
	case tclunk:
		return f.flag == fsys.Read && !f.remove && f.kind != fsys.Message && f.kind != fsys.Stream && len(f.ops) == 0
	}
	return false
}
