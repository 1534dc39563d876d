package host

import (
	"context"
	"os"

	"agent9/fsys"
)

// newSpool makes a file for what is too large for memory. It has no name, so
// that nothing is left of it when it is closed, or when the daemon dies.
func newSpool(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, ".spool-*") // mode 0600
	if err != nil {
		return nil, fsys.Wrap(fsys.Unavailable, "a place for the bundle", err)
	}
	if err := os.Remove(f.Name()); err != nil {
		f.Close()
		return nil, fsys.Wrap(fsys.Unavailable, "a place for the bundle", err)
	}
	return f, nil
}

// oneAtATime lets one operation of a handle in at a time.
type oneAtATime chan struct{}

func newOneAtATime() oneAtATime { return make(oneAtATime, 1) }

// take waits for its turn, or until ctx ends.
func (o oneAtATime) take(ctx context.Context) error {
	select {
	case o <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (o oneAtATime) give() { <-o }
