//go:build (linux && !386 && !arm && !mips && !mipsle) || darwin || freebsd

package fuse

import (
	"sync"
	"time"

	gofuse "github.com/hanwen/go-fuse/v2/fuse"

	"agent9/fsys"
)

// forReturn is how long after the loss of the tree requests wait for its
// return. Later ones fail at once.
const forReturn = 5 * time.Second

// A link says whether the tree can be reached. The zero value says that it can.
type link struct {
	mu      sync.Mutex
	running int           // requests under way
	idle    chan struct{} // made by a waiter, closed when running is 0
	back    chan struct{} // made when the tree was lost, closed when it is back
	until   time.Time     // when requests no longer wait for that
	age     int           // how often the tree was lost
}

// enter begins a request, when the tree is there.
func (l *link) enter(interrupt, over <-chan struct{}) gofuse.Status {
	for {
		l.mu.Lock()
		back, left := l.back, time.Until(l.until)
		if back == nil {
			l.running++
			l.mu.Unlock()
			return gofuse.OK
		}
		l.mu.Unlock()
		if left <= 0 {
			return gofuse.EIO
		}
		late := time.NewTimer(left)
		select {
		case <-back:
		case <-late.C:
		case <-interrupt:
			late.Stop()
			return gofuse.EINTR
		case <-over:
			late.Stop()
			return gone
		}
		late.Stop()
	}
}

func (l *link) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running--; l.running == 0 && l.idle != nil {
		close(l.idle)
		l.idle = nil
	}
}

// now returns the age of the tree.
func (l *link) now() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.age
}

func (l *link) isLost() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.back != nil
}

// lose says that the tree cannot be reached.
func (l *link) lose() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.back == nil {
		l.back, l.until = make(chan struct{}), time.Now().Add(forReturn)
		l.age++
	}
}

// quiet returns what is closed when no request is under way. None begins while
// the tree is lost.
func (l *link) quiet() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	idle := l.idle
	if idle == nil {
		idle = make(chan struct{})
		if l.running == 0 {
			close(idle)
		} else {
			l.idle = idle
		}
	}
	return idle
}

// restore lets requests go on.
func (l *link) restore() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.back != nil {
		close(l.back)
		l.back = nil
	}
}

// Lost says that the tree cannot be reached: its nodes and handles fail, or
// will do so soon. New requests wait for Return, for some seconds after the
// loss, and then fail with EIO. The mount stays, so that no program writes to
// the directory below it.
func (m *Mounted) Lost() { m.tree.link.lose() }

// Return shows root, the same tree reached anew, in place of the one that was
// lost, after all requests under way have failed. Files and working directories
// keep their names; what was open fails.
func (m *Mounted) Return(root fsys.Node) {
	select {
	case <-m.tree.link.quiet():
	case <-m.tree.ctx.Done():
		return
	}
	m.tree.inodes.replant(root)
	m.tree.link.restore()
}

// replant makes root the node from which every other one is found. Nothing that
// the kernel or a listing knows of the old tree is believed.
func (t *inodes) replant(root fsys.Node) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.clock++
	for _, in := range t.byID {
		in.node, in.changed, in.attrs, in.pages = nil, t.clock, label{}, label{}
	}
	t.byID[gofuse.FUSE_ROOT_ID].node = root
}
