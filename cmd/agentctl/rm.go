package main

import (
	"github.com/urfave/cli/v2"

	"agent9/fsys"
)

func rmCommand() *cli.Command {
	return &cli.Command{
		Name:      "rm",
		Usage:     "remove files and empty directories",
		ArgsUsage: "PATH...",
		Description: `Removing a message acknowledges it, removing a token revokes it.

   agentctl rm agents/alice/inbox/01J9Z
   agentctl rm -r agents/alice/compute/jobs/17`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "recursive", Aliases: []string{"r"}, Usage: "what is in a directory, too"},
			&cli.BoolFlag{Name: "force", Aliases: []string{"f"}, Usage: "a path that does not exist is no failure"},
		},
		OnUsageError: usageFailed,
		Before:       takes(1, -1, "a path"),
		BashComplete: completePaths,
		Action: attached(func(s *session) error {
			return each(s.Context.Context, s.App.ErrWriter, s.Args().Slice(), func(p string) error {
				n, err := s.walk(p)
				if err == nil {
					err = s.remove(n)
				}
				if err != nil && s.Bool("force") && fsys.CodeOf(err) == fsys.NotExist {
					return nil
				}
				return at(p, err)
			})
		}),
	}
}

// remove removes n and, with --recursive, first what is in it. Some
// directories go as a whole, with files that cannot be removed alone: what
// counts is whether the directory itself can be.
func (s *session) remove(n fsys.Node) error {
	ctx := s.Context.Context
	err := fsys.Remove(ctx, n)
	if err == nil || !s.Bool("recursive") || fsys.CodeOf(err) != fsys.NotEmpty {
		return err
	}
	entries, lerr := fsys.List(ctx, n)
	if lerr != nil {
		return lerr
	}
	for _, e := range entries {
		if err := s.remove(e.Node); err != nil && fsys.CodeOf(err) != fsys.NotExist {
			return at(e.Name, err)
		}
	}
	return fsys.Remove(ctx, n)
}
