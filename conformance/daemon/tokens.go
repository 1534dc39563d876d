package daemon

import (
	"strings"
	"testing"
)

// OverTCP starts a daemon that listens on TCP too, with the agents alice and
// bob, and returns its address.
func OverTCP(t *testing.T, args ...string) (d *Daemon, r *Tree, address string) {
	t.Helper()
	d = Start(t, append([]string{"--listen", "tcp:127.0.0.1:0"}, args...)...)
	_, rest, ok := strings.Cut(d.Text(), "listening on tcp:")
	if !ok {
		t.Fatalf("no address in\n%s", d.Text())
	}
	address, _, _ = strings.Cut(rest, "\n")
	r = d.Root()
	r.Mkdir("agents", "alice")
	r.Mkdir("agents", "bob")
	return d, r, address
}
