package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"agent9/cmd/internal/plain"
	"agent9/fsys"
	"agent9/fsys/fstest"
)

func checkCommand() *cli.Command {
	return &cli.Command{
		Name:      "check",
		Usage:     "look for mistakes in a tree that is in use",
		ArgsUsage: "[PATH]",
		Description: `Walks through everything below PATH and says where the tree contradicts itself.
It changes nothing: it opens nothing for writing and no message file, so that it
takes no message and starts nothing. Of large directories it looks into 64
entries. The exit status is 1 if there is a finding, and 12 if the time was too
short to look at all.

   agentctl check agents/alice
   agentctl check --time 10m`,
		Flags:        []cli.Flag{&cli.DurationFlag{Name: "time", Value: time.Minute, Usage: "look for at most `DURATION`"}},
		OnUsageError: usageFailed,
		Before:       takes(0, 1, ""),
		BashComplete: completePaths,
		Action: attached(func(s *session) error {
			p := s.Args().First()
			n, err := s.walk(p)
			if err != nil {
				return at(p, err)
			}
			ctx, cancel := context.WithTimeout(s.Context.Context, s.Duration("time"))
			defer cancel()
			m, last := s.newMeter(false), ""
			findings := fstest.LookAtTree(ctx, n, func(path string) {
				m.begin("/" + path)
				last = path
			})
			m.done()
			if err := s.Context.Context.Err(); err != nil {
				return err
			}
			if findings != nil {
				for line := range strings.Lines(findings.Error() + "\n") {
					fmt.Fprintln(s.App.Writer, plain.Line(strings.TrimSuffix(line, "\n")))
				}
			}
			switch {
			case ctx.Err() != nil:
				return fsys.E(fsys.Timeout, fmt.Sprintf("the time of %v was over at /%s, and the rest was not looked at; give more with --time, or a PATH", s.Duration("time"), last))
			case findings != nil:
				return errReported
			}
			return nil
		}),
	}
}
