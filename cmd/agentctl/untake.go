package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"agent9/fsys"
)

func untakeCommand() *cli.Command {
	return &cli.Command{
		Name:      "untake",
		Usage:     "put back messages that were taken from an agent's inbox",
		ArgsUsage: "AGENT [ID...]",
		Description: `A message that was read from inbox/next, or removed from the inbox, can be had
back for ten minutes. Without an ID it shows those that can be.

   agentctl untake alice
   agentctl untake alice build-17
   agentctl untake alice --all`,
		Flags:        []cli.Flag{&cli.BoolFlag{Name: "all", Usage: "put back all that can be had back"}},
		OnUsageError: usageFailed,
		Before:       takes(1, -1, "the agent"),
		BashComplete: completeAgents,
		Action: attached(func(s *session) error {
			dir, err := s.agent(s.Args().First())
			if err != nil {
				return err
			}
			ids := s.Args().Tail()
			switch all := s.Bool("all"); {
			case all && len(ids) > 0:
				return usagef("give either IDs or --all")
			case all:
				ids = []string{"all"}
			case len(ids) == 0:
				return s.listTaken(join(dir, "inbox/taken"))
			}
			return each(s.Context.Context, s.App.ErrWriter, ids, func(id string) error {
				err := s.tell(join(dir, "inbox/ctl"), "untake "+id)
				if err != nil && fsys.CodeOf(err) == fsys.NotExist && fsys.ReasonOf(err) == "" {
					err = fsys.E(fsys.NotExist, "no such message was taken in the last ten minutes; agentctl untake AGENT shows those that were")
				}
				return at(id, err)
			})
		}),
	}
}

// listTaken shows the messages in dir, one on a line.
func (s *session) listTaken(dir string) error {
	ids, err := s.names(dir)
	if err != nil {
		return err
	}
	for _, id := range ids {
		m, err := s.readFile(join(dir, id))
		if err != nil {
			continue // its time is over
		}
		if _, err := fmt.Fprintln(s.App.Writer, oneLine(string(m))); err != nil {
			return err
		}
	}
	return nil
}
