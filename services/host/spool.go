package host

import (
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
