//go:build unix && !linux

package bwrap

import (
	"agent9/fsys"
	"agent9/providers/sandboxes"
)

// Provider is never made on this system.
type Provider struct{ sandboxes.Provider }

// Has reports nothing: there are no sandboxes.
func (*Provider) Has(int) bool { return false }

// New fails: there is bubblewrap under Linux only.
func New(Config) (*Provider, error) {
	return nil, fsys.E(fsys.Unavailable, "bubblewrap needs Linux")
}
