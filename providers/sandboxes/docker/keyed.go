package docker

import (
	"context"
	"sync"
)

// keyed knows which things have been made, by name, and lets one caller at a
// time make one. The zero keyed knows of none.
type keyed struct {
	mu   sync.Mutex
	done map[string]bool
	busy map[string]chan struct{} // closed when whoever makes it is done
}

// make calls f unless it has been called for name, with success.
func (k *keyed) make(ctx context.Context, name string, f func() error) error {
	release, err := k.hold(ctx, name)
	if err != nil {
		return err
	}
	defer release()
	if k.has(name) {
		return nil
	}
	if err := f(); err != nil {
		return err
	}
	k.set(name, true)
	return nil
}

// forget makes make act again: it has been removed, or will be.
func (k *keyed) forget(name string) { k.set(name, false) }

func (k *keyed) has(name string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.done[name]
}

func (k *keyed) set(name string, done bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.done == nil {
		k.done = make(map[string]bool)
	}
	if done {
		k.done[name] = true
	} else {
		delete(k.done, name)
	}
}

// hold waits until nobody holds name, and holds it.
func (k *keyed) hold(ctx context.Context, name string) (release func(), err error) {
	for {
		k.mu.Lock()
		other, held := k.busy[name]
		if !held {
			break
		}
		k.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	defer k.mu.Unlock()
	mine := make(chan struct{})
	if k.busy == nil {
		k.busy = make(map[string]chan struct{})
	}
	k.busy[name] = mine
	return func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.busy, name)
		close(mine)
	}, nil
}
