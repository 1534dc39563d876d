package ninep

import (
	"container/list"
	"runtime"
	"sync"
)

// A nodeFid is the fid that a node keeps so as not to walk each time. It may
// be taken away while nobody uses it; the node then walks again.
type nodeFid struct {
	num    uint32
	valid  bool
	pinned bool // the root: it cannot be walked to again
	users  int
	gone   bool          // the node was collected
	idle   *list.Element // in heldFids.idle, when valid, not pinned and without users
}

// maxHeld is how many fids nodes keep that nobody uses. They take half of what
// a server gives each connection whatever others do, so that small requests
// always go on.
const maxHeld = ownBytes / 2 / fidBytes

// heldFids are the fids of all nodes.
type heldFids struct {
	c    *Client
	mu   sync.Mutex
	idle list.List // of *nodeFid, the least recently used last
}

func (h *heldFids) init(c *Client) { h.c = c }

// use returns the fid of f, which stays until release.
func (h *heldFids) use(f *nodeFid) (fid uint32, ok bool) {
	if f == nil {
		return 0, false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !f.valid {
		return 0, false
	}
	if f.users++; f.idle != nil {
		h.idle.Remove(f.idle)
		f.idle = nil
	}
	return f.num, true
}

// set makes fid what f keeps, in use once.
func (h *heldFids) set(f *nodeFid, fid uint32) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f.num, f.valid, f.users = fid, true, f.users+1
}

func (h *heldFids) release(f *nodeFid) {
	h.mu.Lock()
	f.users--
	clunk := h.rest(f)
	h.mu.Unlock()
	for _, fid := range clunk {
		h.c.clunkLater(fid)
	}
}

// collected says that the node of f is no more.
func (h *heldFids) collected(f *nodeFid) {
	h.mu.Lock()
	f.gone = true
	clunk := h.rest(f)
	h.mu.Unlock()
	for _, fid := range clunk {
		h.c.clunkLater(fid)
	}
}

// rest puts f among the idle ones if it is, and returns the fids that are to
// be clunked for it.
func (h *heldFids) rest(f *nodeFid) (clunk []uint32) {
	if f.users > 0 || !f.valid {
		return nil
	}
	if f.gone {
		if f.valid = false; f.idle != nil {
			h.idle.Remove(f.idle)
		}
		return []uint32{f.num}
	}
	if f.pinned {
		return nil
	}
	if f.idle == nil {
		f.idle = h.idle.PushFront(f)
	}
	for h.idle.Len() > maxHeld {
		old := h.idle.Remove(h.idle.Back()).(*nodeFid)
		old.valid, old.idle = false, nil
		clunk = append(clunk, old.num)
	}
	return clunk
}

// adopt makes fid the one that n keeps; it returns false if n has one.
func (n *Remote) adopt(fid uint32) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	held := &n.c.held
	if n.fid == nil {
		n.fid = &nodeFid{pinned: n.parent == nil}
		runtime.AddCleanup(n, held.collected, n.fid)
	} else if _, ok := held.use(n.fid); ok {
		held.release(n.fid)
		return false
	}
	held.set(n.fid, fid)
	held.release(n.fid)
	return true
}
