package main

import (
	"encoding/json"
	"strings"

	"github.com/urfave/cli/v2"

	"agent9/fsys"
)

func sendCommand() *cli.Command {
	return &cli.Command{
		Name:      "send",
		Usage:     "put a message in an agent's inbox and print its id",
		ArgsUsage: "AGENT TEXT|-",
		Description: `TEXT is the body of the message, or "-" to read it from standard input. A JSON
object is taken as the whole envelope: {id?, type?, reply_to?, body}.

   agentctl send alice "the build is red"
   git log -1 | agentctl send alice -
   agentctl send alice --type ci --id build-17 "the build is red"`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "id", Usage: "`ID` of the message; the same id is the same message"},
			&cli.StringFlag{Name: "type", Usage: "`TYPE` of the message"},
			&cli.StringFlag{Name: "reply-to", Usage: "`ID` of the message that this one answers"},
		},
		OnUsageError: usageFailed,
		Before:       takes(1, -1, "the text"),
		BashComplete: completeAgents,
		Action: attached(func(s *session) error {
			dir, words, err := s.agentAnd("the text")
			if err != nil {
				return err
			}
			text, err := textOf(s.Context.Context, s.App.Reader, words)
			if err != nil {
				return err
			}
			m, err := s.envelope(text)
			if err != nil {
				return err
			}
			reply, err := s.converse(s.Context.Context, join(dir, "inbox/new"), m)
			if err != nil {
				return err
			}
			_, err = s.App.Writer.Write(reply)
			return err
		}),
	}
}

// envelope returns the message with text as its body or, if it is a JSON
// object, as all of it.
func (s *session) envelope(text string) ([]byte, error) {
	m, err := object(text)
	if err != nil {
		return nil, err
	}
	if m == nil {
		m = object1("body", strings.TrimSuffix(text, "\n"))
	}
	for flag, field := range map[string]string{"id": "id", "type": "type", "reply-to": "reply_to"} {
		if v := s.String(flag); v != "" {
			m[field] = fsys.Line(v)
		}
	}
	return fsys.Line(m), nil
}

// object decodes text if it is a JSON object, and returns nil if it is not
// meant to be JSON.
func object(text string) (map[string]json.RawMessage, error) {
	if !strings.HasPrefix(strings.TrimSpace(text), "{") {
		return nil, nil
	}
	var m map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		return nil, fsys.E(fsys.Invalid, "the text begins with {, which is JSON, and it is not: "+err.Error()+"; a text begins with another character")
	}
	return m, nil
}

func object1(field string, v any) map[string]json.RawMessage {
	return map[string]json.RawMessage{field: fsys.Line(v)}
}

func join(dir, name string) string { return clean(dir + "/" + name) }
