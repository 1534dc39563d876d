package daemon

import (
	"context"
	"testing"

	"github.com/coder/websocket"
)

// Exchange sends a frame and returns the answer; empty if the connection is
// gone.
func Exchange(t *testing.T, conn *websocket.Conn, frame string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Limit)
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
