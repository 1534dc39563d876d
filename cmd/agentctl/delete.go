package main

import (
	"errors"

	"github.com/urfave/cli/v2"

	"agent9/fsys"
)

func deleteCommand() *cli.Command {
	return &cli.Command{
		Name:      "delete",
		Usage:     "delete stopped agents and everything they have",
		ArgsUsage: "NAME...",
		Description: `The same as rmdir in /agents. An agent that is not stopped is not deleted,
unless --stop stops it first.

   agentctl delete --stop alice`,
		Flags:        []cli.Flag{&cli.BoolFlag{Name: "stop", Usage: "stop the agent first"}},
		OnUsageError: usageFailed,
		Before:       takes(1, -1, "a name"),
		BashComplete: completeManyAgents,
		Action: attached(func(s *session) error {
			agents, err := s.needAgents()
			if err != nil {
				return err
			}
			return each(s.Context.Context, s.App.ErrWriter, s.Args().Slice(), func(name string) error {
				return at(name, s.deleteAgent(agents, name))
			})
		}),
	}
}

func (s *session) deleteAgent(agents fsys.Node, name string) error {
	dir, err := s.agent(name)
	if err != nil {
		return err
	}
	n, err := fsys.Walk(s.Context.Context, agents, dir[len("agents/"):])
	if err != nil {
		return err
	}
	if s.Bool("stop") {
		if err := s.tell(dir+"/ctl", verbStop); err != nil {
			var p *pathError
			if errors.As(err, &p) {
				return p.err
			}
			return err
		}
	}
	return fsys.Remove(s.Context.Context, n)
}
