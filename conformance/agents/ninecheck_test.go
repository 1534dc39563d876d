package agents

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"agent9/conformance/daemon"
	"agent9/conformance/ninecheck"
)

// The daemon keeps to the protocol, as far as what asks any server can see; and
// nothing that was tried is left in what it keeps.
func TestNinecheck(t *testing.T) {
	d, _, alice := daemon.OneAgent(t)
	results, err := ninecheck.Run(t.Context(), ninecheck.Options{
		Dial: func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", d.Sock())
		},
		Aname: "agents/alice", Uname: "glenda",
		Write: "goals", Stream: "logs/trajectory", Hostile: true,
		Limit: daemon.Limit, Quiet: 50 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if r.Verdict == ninecheck.Fail || r.Verdict == ninecheck.Skip && !strings.HasPrefix(r.Reason, "only in") {
			var b strings.Builder
			r.Print(&b)
			t.Error(b.String())
		}
	}
	if left := alice.List("goals"); len(left) > 0 {
		t.Errorf("goals/ holds %q", left)
	}
}
