package main

import (
	"bytes"

	"github.com/urfave/cli/v2"

	"agent9/fsys"
)

func configCommand() *cli.Command {
	return &cli.Command{
		Name:      "config",
		Usage:     "show an agent's settings, set one, or edit them",
		ArgsUsage: "AGENT [FIELD [VALUE]]",
		Description: `FIELD is a name, or names with dots between them; VALUE is JSON, or a text. The
daemon takes the settings as a whole or not at all, and says what is wrong.
--edit opens them in $VISUAL or $EDITOR; what is refused stays in a file. --file
names other settings of the agent: budget/limits, compute/policy or
containers/policy.

   agentctl config alice
   agentctl config alice inbox.limit 100
   agentctl config alice accept '["bob", "team-*"]'
   agentctl config alice secrets.forge '{"uses": ["git"], "hosts": ["github.com"]}'
   agentctl config alice --unset accept
   agentctl config alice --edit
   agentctl config alice --file compute/policy max_concurrent 4`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "edit", Aliases: []string{"e"}, Usage: "open them in an editor"},
			&cli.StringFlag{Name: "unset", Usage: "take out `FIELD`"},
			&cli.StringFlag{Name: "file", Value: "config", Usage: "`PATH` of the settings in the agent's tree"},
			jsonFlag(),
		},
		OnUsageError: usageFailed,
		Before:       takes(0, 3, ""),
		BashComplete: completeConfig,
		Action: func(c *cli.Context) error {
			if c.Bool("edit") {
				return editConfig(c)
			}
			return attached(config)(c)
		},
	}
}

func config(s *session) error {
	p, err := s.settings()
	if err != nil {
		return err
	}
	doc, err := s.readFile(p)
	if err != nil {
		return at(p, err)
	}
	name, value, unset := s.Args().Get(1), s.Args().Get(2), s.String("unset")
	switch {
	case unset != "" && name != "":
		return usagef("config: --unset takes only the agent")
	case unset != "":
		doc, err = setField(doc, unset, nil)
	case s.NArg() > 2:
		doc, err = setField(doc, name, valueOf(value))
	case name != "":
		if doc, err = getField(doc, name); err != nil {
			return at(p, err)
		}
		fallthrough
	default:
		return s.showDocument(doc)
	}
	if err != nil {
		return at(p, err)
	}
	return at(p, s.writeFile(p, append(doc, '\n')))
}

// settings is the path of the file that the command is about.
func (s *session) settings() (string, error) {
	dir, err := s.agent(s.Args().First())
	return join(dir, s.String("file")), err
}

func (s *session) showDocument(doc []byte) error {
	if s.Bool("json") {
		doc = append(bytes.TrimSpace(doc), '\n')
	} else {
		doc = append(bytes.TrimSpace(indented(doc)), '\n')
	}
	_, err := s.App.Writer.Write(doc)
	return err
}

// writeFile writes all of the file at p.
func (s *session) writeFile(p string, text []byte) error {
	return fsys.WriteFile(s.Context.Context, s.root, clean(p), text)
}
