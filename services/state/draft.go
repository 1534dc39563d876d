package state

import (
	"context"
	"sync"

	"agent9/fsys"
	"agent9/store"
	"agent9/store/files"
	"agent9/store/stage"
)

// A Draft is the files as one tick sees and changes them.
type Draft struct {
	s     *State
	stage *stage.Stage
	once  sync.Once

	mu     sync.Mutex
	events []event
}

// maxEvents is how many changes of one tick are recorded as events.
const maxEvents = 1000

// Open returns the top of the files.
func (d *Draft) Open(ctx context.Context) (fsys.Node, error) {
	tree, err := files.New(ctx, d.stage, d.s.options(func(ctx context.Context, _ store.Store, c files.Change) error {
		d.mu.Lock()
		defer d.mu.Unlock()
		if len(d.events) < maxEvents {
			d.events = append(d.events, told(ctx, c))
		}
		return nil
	}))
	if err != nil {
		return nil, err
	}
	return tree.Root(), nil
}

// Commit stores what was changed, in the transaction that tx belongs to. When
// that is committed, the draft is closed.
func (d *Draft) Commit(ctx context.Context, tx store.Store) error {
	if err := d.stage.Commit(ctx, tx); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range d.events {
		if err := d.s.note(tx, e); err != nil {
			return err
		}
	}
	store.After(tx, d.Close)
	return nil
}

// Close drops what was not committed, and lets others change the files again.
func (d *Draft) Close() {
	d.once.Do(func() {
		d.stage.Close()
		d.s.busy.Store(false)
	})
}
