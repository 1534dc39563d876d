package main

import (
	"strings"

	"github.com/urfave/cli/v2"

	"agent9/fsys"
)

func tokenCommand() *cli.Command {
	return &cli.Command{
		Name:      "token",
		Usage:     "make, list and revoke tokens for an agent's tree",
		ArgsUsage: "AGENT [RIGHTS] [EXPIRY]",
		Description: `Prints a new token, which is shown only this once. Whoever has it can attach to
the agent's tree: with RIGHTS, r, w or rw for all of it, or by path as in
r,/inbox:rw; until EXPIRY, a duration such as 24h or 7d, a time, or never. The
tokens that there are, by id, and what they allow are shown by --list.

   AGENT9_TOKEN=$(agentctl token alice r 7d) agentctl ls
   agentctl token alice r,/inbox:rw never
   agentctl token --list
   agentctl token --revoke ID`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "list", Usage: "show the tokens that are in force"},
			&cli.StringFlag{Name: "revoke", Usage: "end the token with this `ID`"},
			jsonFlag(),
		},
		OnUsageError: usageFailed,
		Before:       takes(0, 3, ""),
		BashComplete: completeAgents,
		Action: attached(func(s *session) error {
			args := s.Args().Slice()
			switch id := s.String("revoke"); {
			case (s.Bool("list") || id != "") && len(args) > 0:
				return usagef("token: --list and --revoke take no agent")
			case s.Bool("list"):
				return s.listTokens()
			case id != "":
				n, err := fsys.WalkPath(s.Context.Context, s.root, "tokens/"+id)
				if err == nil {
					err = fsys.Remove(s.Context.Context, n)
				}
				if err != nil && fsys.CodeOf(err) == fsys.NotExist {
					err = fsys.E(fsys.NotExist, "there is no token with this id; agentctl token --list shows them")
				}
				return at(id, err)
			case len(args) < 1:
				return usagef("token: the agent is missing; see agentctl token --help")
			}
			return s.newToken(args)
		}),
	}
}

func (s *session) newToken(args []string) error {
	args[0] = strings.TrimPrefix(clean(args[0]), "agents/")
	for _, a := range args {
		if len(strings.Fields(a)) != 1 || strings.TrimSpace(a) != a {
			return usagef("%q cannot be an argument of token", a)
		}
	}
	reply, err := s.converse(s.Context.Context, "ctl", []byte("token "+strings.Join(args, " ")+"\n"))
	if err != nil {
		return err
	}
	_, err = s.App.Writer.Write(reply)
	return err
}

func (s *session) listTokens() error {
	dir, err := s.walk("tokens")
	if err != nil {
		return at("tokens", err)
	}
	entries, err := fsys.List(s.Context.Context, dir)
	if err != nil {
		return at("tokens", err)
	}
	var t *table
	if !s.Bool("json") {
		t = newTable(s.App.Writer, "ID", "AGENT", "RIGHTS", "EXPIRES", "CREATED")
		defer t.flush()
	}
	for _, e := range entries {
		var r struct{ Agent, Rights, Expires, Created string }
		var b []byte
		err := s.readJSON("tokens/"+e.Name, &r, &b)
		switch {
		case err != nil && fsys.CodeOf(err) == fsys.NotExist: // it was revoked meanwhile
		case err != nil:
			return err
		case t != nil:
			t.row(e.Name, r.Agent, orDash(r.Rights), orDash(r.Expires), orDash(r.Created))
		default:
			fields, err := fieldsOf(b)
			if err != nil {
				return at("tokens/"+e.Name, err)
			}
			s.printJSON(withField("id", e.Name, fields))
		}
	}
	return nil
}
