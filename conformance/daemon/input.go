package daemon

import (
	"testing"
)

// OneAgent starts a daemon with the agent alice, and returns the operator's
// view of the daemon and of alice.
func OneAgent(t *testing.T) (d *Daemon, r, alice *Tree) {
	t.Helper()
	d = Start(t)
	r = d.Root()
	r.Mkdir("agents", "alice")
	return d, r, d.At("/agents/alice")
}

const InboxFiles = "new next head taken ctl"
