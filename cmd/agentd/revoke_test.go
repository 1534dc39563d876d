package main

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"agent9/fsys"
	"agent9/fsys/ninep"
)

// When rm tokens/ID has returned, what the token opened is closed: over 9P,
// over HTTP and on a WebSocket, whoever asks first.
func TestRevokedAtOnce(t *testing.T) {
	d, url, operator := startWeb(t, "--listen", "tcp:127.0.0.1:0")
	_, rest, _ := strings.Cut(d.text(), "listening on tcp:")
	address, _, _ := strings.Cut(rest, "\n")
	create(t, operator, "alice")
	r := d.root()
	for range 20 {
		token := r.ask("ctl", "token alice")
		client, err := ninep.Dial(within(t), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		root, err := client.Attach(within(t), "", token)
		if err != nil {
			t.Fatal(err)
		}
		goals, err := fsys.Walk(within(t), root, "goals")
		if err != nil {
			t.Fatal(err)
		}
		readme, err := fsys.OpenPath(within(t), root, "README", fsys.Read)
		if err != nil {
			t.Fatal(err)
		}
		conn, _, err := websocket.Dial(within(t), strings.Replace(url, "http", "ws", 1)+"/agents/alice/", &websocket.DialOptions{Subprotocols: []string{"agent9", "bearer." + token}})
		if err != nil {
			t.Fatal(err)
		}
		if got := exchange(t, conn, `{"id":1,"op":"open","path":"/README"}`); !strings.Contains(got, `"kind":"file"`) {
			t.Fatalf("%s", got)
		}
		if status, text := ask(t, http.DefaultClient, token, "GET", url+"/agents/alice/status", ""); status != 200 {
			t.Fatalf("%d %s", status, text)
		}

		r.remove("tokens/" + r.list("tokens"))

		if _, err := fsys.ReadAt(within(t), readme, make([]byte, 10), 0); fsys.CodeOf(err) != fsys.Permission || err == nil {
			t.Errorf("9P, a read: %v", err)
		}
		_, err = goals.Stat(within(t))
		refused(t, "9P, a stat", err, fsys.Permission)
		if status, text := ask(t, http.DefaultClient, token, "GET", url+"/agents/alice/status", ""); status != 401 {
			t.Errorf("HTTP: %d %s", status, text)
		}
		if got := exchange(t, conn, `{"id":2,"op":"read","file":1}`); got != "" && !strings.Contains(got, `"forbidden"`) {
			t.Errorf("WebSocket: %s", got)
		}
		conn.CloseNow()
		client.Close()
	}
}

// exchange sends a frame and returns the answer; empty if the connection is
// gone.
func exchange(t *testing.T, conn *websocket.Conn, frame string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	if err := conn.Write(ctx, websocket.MessageText, []byte(frame)); err != nil {
		return ""
	}
	_, text, err := conn.Read(ctx)
	if err != nil && ctx.Err() != nil {
		t.Fatal(err)
	}
	return string(text)
}
