package golang

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"agent9/fsys"
	"agent9/providers/programs"
)

// Echo is an example of a programs.Agent, and a way to try out ticks: it
// answers each message that another agent sends with the same body, and counts
// in state/echoed how many that were.
type Echo struct{}

func (Echo) Tick(ctx context.Context, ns fsys.Node, t programs.Trigger) error {
	if t.Cause != programs.Message {
		return nil
	}
	var m struct {
		ID   string          `json:"id"`
		From string          `json:"from"`
		Type string          `json:"type"`
		Body json.RawMessage `json:"body"`
	}
	if err := json.Unmarshal(t.Message, &m); err != nil {
		return err
	}
	if err := count(ctx, ns); err != nil {
		return err
	}
	if m.From == string(fsys.Operator) || m.Type == "echo" { // who cannot be answered, and what is an answer
		return nil
	}
	return fsys.WriteFile(ctx, ns, "outbox/new", fsys.Line(map[string]any{
		"to": m.From, "type": "echo", "reply_to": m.ID, "body": m.Body,
	}))
}

func count(ctx context.Context, ns fsys.Node) error {
	b, err := fsys.ReadFile(ctx, ns, "state/echoed")
	if err != nil && !errors.Is(err, fsys.NotExist) {
		return err
	}
	n, _ := strconv.Atoi(strings.TrimSpace(string(b)))
	return programs.Save(ctx, ns, "state/echoed", []byte(strconv.Itoa(n+1)+"\n"))
}
