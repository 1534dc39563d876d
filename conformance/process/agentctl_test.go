package process

import (
	"agent9/conformance/daemon"
	"path/filepath"
	"strings"
	"testing"
)

func TestWhatAPersonReads(t *testing.T) {
	d, r, address := daemon.OverTCP(t)
	at := "unix:" + d.Sock()
	r.Write("agents/bob/config", `{"inbox": {"limit": 1, "overflow": "refuse"}, "accept": []}`)
	works := func(want, in string, args ...string) {
		t.Helper()
		if out, ok := daemon.Ctl(t, at, in, args...); !ok || !strings.Contains(out, want) {
			t.Errorf("agentctl %q: got %v and\n%s\nwant %q", args, ok, out, want)
		}
	}
	fails := func(at string, in string, args []string, words ...string) {
		t.Helper()
		out, ok := daemon.Ctl(t, at, in, args...)
		if ok {
			t.Errorf("agentctl %q succeeded: %s", args, out)
		}
		if lines := strings.Count(out, "\n"); lines != 1 {
			t.Errorf("agentctl %q says %d lines:\n%s", args, lines, out)
		}
		for _, w := range words {
			if !strings.Contains(out, w) {
				t.Errorf("agentctl %q says\n%swant %q in it", args, out, w)
			}
		}
	}
	works("alice", "", "list")
	works("", "", "send", "bob", "first")
	fails(at, "", []string{"send", "bob", "second"}, "bob", "the inbox is full")
	fails(at, "", []string{"create", "no spaces"}, "no spaces", "letters, digits, and - _ . only")
	fails(at, "", []string{"create", "alice"}, "there is an agent alice already")
	fails(at, "", []string{"delete", "alice"}, "alice", "stop the agent first: echo stop > agents/alice/ctl, or agentctl stop alice")
	fails(at, `{"accept": [`, []string{"put", "agents/alice/config"}, "config", "not a whole JSON value; nothing was changed")
	fails(at, `{"acept": []}`, []string{"put", "agents/alice/config"}, "config", `unknown field "acept"`)
	fails(at, "", []string{"cat", "agents/nobody/status"}, "agents/nobody/status", "no agent nobody")
	fails(at, "", []string{"rm", "agents/alice"}, "agents/alice")
	fails(at, "", []string{"token", "nobody"}, "no agent nobody")
	fails(at, "", []string{"token", "alice", "everything"}, "everything")
	fails("tcp:"+address, "", []string{"list"}, "a token is needed as aname; make one with agentctl token")
	fails("unix:"+filepath.Join(d.Dir, "nothing"), "", []string{"--wait", "0s", "list"}, filepath.Join(d.Dir, "nothing"))
	works("alice", "", "list")
	works("", "", "delete", "--stop", "bob")
	works("", "shutdown", "put", "ctl")
	d.Ends(daemon.Bound)
}
