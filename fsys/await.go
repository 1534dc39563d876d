package fsys

// An Awaiter is a Handle on a Stream whose readers can wait without a
// goroutine each, so that many may wait at little cost.
type Awaiter interface {
	Handle
	// Await sees to it that ready is called once, when a read at off need not
	// wait any longer. It returns nil, and ready is never called, if a read
	// need not wait now, or if this handle cannot say.
	//
	// ready may be called before Await returns, and by anybody who holds locks:
	// it does not wait, and does not use the handle. stop says that nobody
	// waits any more; ready may be on its way then.
	Await(off int64, ready func()) (stop func())
}

// Await is h's, if it has one; else nil.
func Await(h Handle, off int64, ready func()) (stop func()) {
	if h, ok := h.(Awaiter); ok {
		return h.Await(off, ready)
	}
	return nil
}
