package main

import (
	"fmt"

	"agent9/cmd/internal/money"

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
		Flags:        []cli.Flag{jsonFlag()},
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
			t := newTable(s.App.Writer)
			statusRows(t, r)
			return t.flush()
		}),
	}
}

// statusRows says an agent's status in words.
func statusRows(t *table, r statusReport) {
	state := r.State
	if r.Reason != "" {
		state += ": " + r.Reason
	}
	t.row("name", r.Name)
	t.row("state", state)
	t.row("public key", r.Pubkey)
	t.row("created", r.Created)
	t.row("inbox", fmt.Sprintf("%d waiting, %d in deadletter", r.Queues.Inbox, r.Queues.DeadLetter))
	t.row("jobs", fmt.Sprintf("%d queued or running", r.Queues.Jobs))
	if n := r.Queues.Approvals; n > 0 {
		t.row("approvals", fmt.Sprintf("%d wait; agentctl approve %s shows them", n, r.Name))
	}
	if n := r.Queues.Alarms; n > 0 {
		t.row("alarms", n)
	}
	if r.Ticks.Count > 0 || r.Ticks.Running != "" {
		t.row("ticks", tickWords(r))
	}
	t.row("spent", fmt.Sprintf("%s, of it %s today; %s held", money.Text(r.Budget.Spent), money.Text(r.Budget.SpentDay), money.Text(r.Budget.Held)))
	t.row("left", leftInWords(r.Budget.Left))
}

func tickWords(r statusReport) string {
	text := fmt.Sprintf("%d", r.Ticks.Count)
	if r.Ticks.Failed > 0 {
		text += fmt.Sprintf(", of which %d failed", r.Ticks.Failed)
	}
	if r.Ticks.Running != "" {
		text += "; " + r.Ticks.Running + " runs"
	}
	return text
}
