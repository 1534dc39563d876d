package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/urfave/cli/v2"
)

func statusCommand() *cli.Command {
	return &cli.Command{
		Name:      "status",
		Usage:     "show how an agent is",
		ArgsUsage: "AGENT",
		Description: `The file status of the agent's tree, in words.

   agentctl status alice
   agentctl status alice --json`,
		Flags:        []cli.Flag{&cli.BoolFlag{Name: "json", Usage: "the file as it is"}},
		OnUsageError: usageFailed,
		Before:       takes(0, 1, ""),
		BashComplete: completeAgents,
		Action: attached(func(s *session) error {
			dir, err := s.agent(s.Args().First())
			if err != nil {
				return err
			}
			r, err := s.report(dir)
			if err != nil {
				return err
			}
			if s.Bool("json") {
				_, err := s.App.Writer.Write(r.raw)
				return err
			}
			w := tabwriter.NewWriter(s.App.Writer, 0, 8, 2, ' ', 0)
			fmt.Fprintf(w, "name\t%s\n", r.Name)
			fmt.Fprintf(w, "state\t%s\n", r.State)
			fmt.Fprintf(w, "public key\t%s\n", r.Pubkey)
			fmt.Fprintf(w, "created\t%s\n", r.Created)
			fmt.Fprintf(w, "inbox\t%d waiting, %d in deadletter\n", r.Queues.Inbox, r.Queues.DeadLetter)
			fmt.Fprintf(w, "jobs\t%d queued or running\n", r.Queues.Jobs)
			fmt.Fprintf(w, "spent\t%s, of it %s today; %s held\n",
				dollars(r.Budget.Spent), dollars(r.Budget.SpentDay), dollars(r.Budget.Held))
			fmt.Fprintf(w, "left\t%s\n", left(r, "no limit"))
			return w.Flush()
		}),
	}
}
