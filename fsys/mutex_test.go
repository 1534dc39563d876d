package fsys_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"agent9/fsys"
)

func TestMutex(t *testing.T) {
	var m fsys.Mutex
	var wg sync.WaitGroup
	n := 0
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				if err := m.Lock(context.Background()); err != nil {
					t.Error(err)
					return
				}
				n++
				m.Unlock()
			}
		})
	}
	wg.Wait()
	if n != 8000 {
		t.Errorf("counted %d", n)
	}
	why := errors.New("why")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(why)
	if err := m.Lock(ctx); err != nil {
		t.Errorf("unlocked, after the end of the context: %v", err)
	}
	if m.TryLock() {
		t.Error("locked twice")
	}
	if err := m.Lock(ctx); err != why {
		t.Errorf("locked: got %v", err)
	}
	m.Unlock()
	if !m.TryLock() {
		t.Error("not unlocked")
	}
}
