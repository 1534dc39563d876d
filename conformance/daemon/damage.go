package daemon

import (
	_ "embed"
	"syscall"
)

// Stop ends the daemon in order.
func (d *Daemon) Stop() {
	d.T.Helper()
	d.Signal(syscall.SIGTERM)
	d.Ends(Bound)
}
