package main

import (
	"path"

	"github.com/urfave/cli/v2"

	"agent9/fsys"
)

func mkdirCommand() *cli.Command {
	return &cli.Command{
		Name:      "mkdir",
		Usage:     "make directories",
		ArgsUsage: "PATH...",
		Description: `   agentctl mkdir agents/alice/goals/2026
   agentctl mkdir -p agents/alice/goals/2026/may`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "parents", Aliases: []string{"p"}, Usage: "those above too; one that exists is no failure"},
		},
		OnUsageError: usageFailed,
		Before:       takes(1, -1, "a path"),
		BashComplete: completePaths,
		Action: attached(func(s *session) error {
			return each(s.Context.Context, s.App.ErrWriter, s.Args().Slice(), func(p string) error {
				return at(p, s.mkdir(clean(p)))
			})
		}),
	}
}

func (s *session) mkdir(p string) error {
	if p == "" {
		return fsys.Exist
	}
	dir, err := s.walk(path.Dir(p))
	if s.Bool("parents") {
		if err != nil && fsys.CodeOf(err) == fsys.NotExist {
			if err = s.mkdir(path.Dir(p)); err == nil {
				dir, err = s.walk(path.Dir(p))
			}
		}
		if err == nil {
			if n, err := fsys.Walk(s.Context.Context, dir, path.Base(p)); err == nil {
				return isDir(s, n)
			}
		}
	}
	if err != nil {
		return err
	}
	_, err = fsys.Mkdir(s.Context.Context, dir, path.Base(p), 0o755)
	return err
}

func isDir(s *session, n fsys.Node) error {
	info, err := n.Stat(s.Context.Context)
	if err == nil && info.Kind != fsys.Directory {
		err = fsys.Exist
	}
	return err
}
