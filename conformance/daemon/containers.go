//go:build linux

package daemon

import (
	"testing"
)

// RootWith is the operator's tree with an agent.
func (d *Daemon) RootWith(t *testing.T, agent string) *Tree {
	t.Helper()
	r := d.As(t).Root()
	r.Mkdir("agents", agent)
	return r
}
