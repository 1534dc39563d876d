package main

import (
	"path"

	"github.com/urfave/cli/v2"
)

func eventFlag() cli.Flag {
	return &cli.StringFlag{Name: "event", Usage: "only the events whose name matches `GLOB`, such as 'compute.*'"}
}

func eventsCommand() *cli.Command {
	return &cli.Command{
		Name:      "events",
		Usage:     "follow what happens, to all agents or to one",
		ArgsUsage: "[AGENT]",
		Description: `From now on; --all begins with an agent's first event, and --stop at the last one
that there is. With --json the lines are as in the tree.

   agentctl events
   agentctl events alice --event 'approval.*'
   agentctl events alice --all --stop --json | jq -r .event`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "all", Usage: "begin with the agent's first event"},
			&cli.BoolFlag{Name: "stop", Usage: "end with the last one, with --all"},
			eventFlag(),
			jsonFlag(),
		},
		OnUsageError: usageFailed,
		Before:       takes(0, 1, ""),
		BashComplete: completeAgents,
		Action:       attached(events),
	}
}

func events(s *session) error {
	if _, err := path.Match(s.String("event"), ""); err != nil {
		return usagef("--event %s is not a glob; such are 'compute.*' and 'inbox.*'", s.String("event"))
	}
	all, stop := s.Bool("all"), s.Bool("stop")
	if stop && !all {
		return usagef("--stop is for --all: nothing has happened from now on")
	}
	name := s.Args().First()
	agents, err := s.agents()
	switch {
	case err != nil:
		return err
	case agents != nil && name == "" && all:
		return usagef("--all is for one agent; which?")
	case agents != nil && name == "":
		return s.printStream("events", true, 0)
	}
	dir, err := s.agent(name)
	switch {
	case err != nil:
		return err
	case all:
		return s.printStream(join(dir, "logs/trajectory"), !stop, 0)
	}
	return s.printStream(join(dir, "logs/trace"), true, 0)
}
