package isolation

import (
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"agent9/conformance/daemon"
	"agent9/fsys"
	"agent9/fsys/ninep"
)

// When rm tokens/ID has returned, what the token opened is closed: over 9P,
// over HTTP and on a WebSocket, whoever asks first.
func TestRevokedAtOnce(t *testing.T) {
	d, url, operator := daemon.StartWeb(t, "--listen", "tcp:127.0.0.1:0")
	_, rest, _ := strings.Cut(d.Text(), "listening on tcp:")
	address, _, _ := strings.Cut(rest, "\n")
	daemon.Create(t, operator, "alice")
	r := d.Root()
	for range 20 {
		token := r.Ask("ctl", "token alice")
		client, err := ninep.Dial(daemon.Within(t), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		root, err := client.Attach(daemon.Within(t), "", token)
		if err != nil {
			t.Fatal(err)
		}
		goals, err := fsys.Walk(daemon.Within(t), root, "goals")
		if err != nil {
			t.Fatal(err)
		}
		readme, err := fsys.OpenPath(daemon.Within(t), root, "README", fsys.Read)
		if err != nil {
			t.Fatal(err)
		}
		conn, _, err := websocket.Dial(daemon.Within(t), strings.Replace(url, "http", "ws", 1)+"/agents/alice/", &websocket.DialOptions{Subprotocols: []string{"agent9", "bearer." + token}})
		if err != nil {
			t.Fatal(err)
		}
		if got := daemon.Exchange(t, conn, `{"id":1,"op":"open","path":"/README"}`); !strings.Contains(got, `"kind":"file"`) {
			t.Fatalf("%s", got)
		}
		if status, text := daemon.Ask(t, http.DefaultClient, token, "GET", url+"/agents/alice/status", ""); status != 200 {
			t.Fatalf("%d %s", status, text)
		}

		r.Remove("tokens/" + r.List("tokens"))

		if _, err := fsys.ReadAt(daemon.Within(t), readme, make([]byte, 10), 0); fsys.CodeOf(err) != fsys.Permission || err == nil {
			t.Errorf("9P, a read: %v", err)
		}
		_, err = goals.Stat(daemon.Within(t))
		daemon.Refused(t, "9P, a stat", err, fsys.Permission)
		if status, text := daemon.Ask(t, http.DefaultClient, token, "GET", url+"/agents/alice/status", ""); status != 401 {
			t.Errorf("HTTP: %d %s", status, text)
		}
		if got := daemon.Exchange(t, conn, `{"id":2,"op":"read","file":1}`); got != "" && !strings.Contains(got, `"forbidden"`) {
			t.Errorf("WebSocket: %s", got)
		}
		conn.CloseNow()
		client.Close()
	}
}
