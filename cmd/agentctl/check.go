package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"agent9/conformance"
)

func checkCommand() *cli.Command {
	return &cli.Command{
		Name:      "check",
		Usage:     "look for mistakes in a tree that is in use",
		ArgsUsage: "[PATH]",
		Description: `Walks through everything below PATH and says where the tree contradicts itself.
It changes nothing; the exit status is 1 if there is a finding.

   agentctl check agents/alice`,
		OnUsageError: usageFailed,
		Before:       takes(0, 1, ""),
		BashComplete: completePaths,
		Action: attached(func(s *session) error {
			p := s.Args().First()
			n, err := s.walk(p)
			if err != nil {
				return at(p, err)
			}
			findings := conformance.CheckTree(s.Context.Context, n)
			if err := s.Context.Err(); err != nil || findings == nil {
				return err
			}
			fmt.Fprintln(s.App.Writer, findings)
			return errReported
		}),
	}
}
