//go:build unix

package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// watch calls resized whenever the terminal has another size, until ctx ends.
func (t *terminal) watch(ctx context.Context, resized func(rows, cols int)) {
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, syscall.SIGWINCH)
	defer signal.Stop(changed)
	for {
		select {
		case <-changed:
			resized(t.size())
		case <-ctx.Done():
			return
		}
	}
}
