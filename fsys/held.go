package fsys

// A Holder is a Handle that keeps something in memory while it is open: a
// snapshot of a text, a request that is not whole yet, a reply that was not
// read. Who serves many clients asks, to bound what one makes it keep.
type Holder interface {
	Handle
	// Held returns about how many bytes that is now. It does not wait.
	Held() int64
}

// Held returns how many bytes h keeps in memory, as far as that is known.
func Held(h Handle) int64 {
	if h, ok := h.(Holder); ok {
		return h.Held()
	}
	return 0
}
