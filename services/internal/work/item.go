package work

import (
	"context"
	"slices"
	"sync"

	"agent9/fsys"
	"agent9/namespace/budget"
)

// An Item is what work in memory has for the ledger; a service embeds it in its
// type of work. While the work has not ended the ledger keeps it in memory;
// afterwards it is there as long as somebody looks at it.
type Item[R any] struct {
	N int64
	// Ctx is that of work that has not ended when it came into memory. It ends
	// with the work.
	Ctx    context.Context
	Cancel context.CancelCauseFunc
	Done   chan struct{} // closed when the work has ended

	standing func(*R) Standing

	mu    sync.Mutex
	rec   R
	holds []*budget.Hold
	gone  bool
}

// Base returns the item itself, which a service's type of work embeds.
func (i *Item[R]) Base() *Item[R] { return i }

// Record returns the record as it is.
func (i *Item[R]) Record() R {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.rec
}

func (i *Item[R]) set(rec R) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.rec = rec
}

// Holds returns the holds of the work, oldest first.
func (i *Item[R]) Holds() []*budget.Hold {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.holds)
}

// SetHolds makes holds those that the end of the work settles.
func (i *Item[R]) SetHolds(holds ...*budget.Hold) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.holds = holds
}

// AddHold is SetHolds with one more, and DropHold with one less.
func (i *Item[R]) AddHold(h *budget.Hold) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.holds = append(i.holds, h)
}

func (i *Item[R]) DropHold(h *budget.Hold) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.holds = slices.DeleteFunc(i.holds, func(x *budget.Hold) bool { return x == h })
}

// Present fails with NotExist if the work has been removed, or will be when it
// has ended.
func (i *Item[R]) Present() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.gone || i.standing(&i.rec).Listing.Removing {
		return fsys.NotExist
	}
	return nil
}

// Hidden are the names of files that were removed.
func (i *Item[R]) Hidden() []string {
	r := i.Record()
	return i.standing(&r).Listing.Hidden
}
