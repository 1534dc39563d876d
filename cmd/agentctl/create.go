package main

import (
	"github.com/urfave/cli/v2"

	"agent9/fsys"
)

func createCommand() *cli.Command {
	return &cli.Command{
		Name:      "create",
		Usage:     "make agents",
		ArgsUsage: "NAME...",
		Description: `The same as mkdir in /agents.

   agentctl create alice bob`,
		OnUsageError: usageFailed,
		Before:       takes(1, -1, "a name"),
		Action: attached(func(s *session) error {
			agents, err := s.needAgents()
			if err != nil {
				return err
			}
			return each(s.Context.Context, s.App.ErrWriter, s.Args().Slice(), func(name string) error {
				_, err := fsys.Mkdir(s.Context.Context, agents, name, 0o755)
				return at(name, err)
			})
		}),
	}
}

// needAgents returns the directory of all agents, which only the operator
// sees.
func (s *session) needAgents() (fsys.Node, error) {
	agents, err := s.agents()
	if err == nil && agents == nil {
		err = fsys.E(fsys.Permission, "this is one agent's tree; agents are made and deleted on the operator's socket")
	}
	return agents, err
}
