package main

import (
	"github.com/urfave/cli/v2"

	"agent9/cmd/internal/plain"
	"agent9/fsys"
)

func backupCommand() *cli.Command {
	return &cli.Command{
		Name:  "backup",
		Usage: "write a copy of the daemon's database, while everything runs",
		Description: `Writes a tar archive to standard output: the database as it is at one moment,
and BACKUP, which says what is not inside, such as master.key. Unpacked into an
empty directory, with master.key put there, it is a data directory.

   agentctl backup > agents.tar
   mkdir -m 700 DIR && tar -xf agents.tar -C DIR && cp master.key DIR
   agentd fsck DIR && agentd --data DIR`,
		OnUsageError: usageFailed,
		Before: func(c *cli.Context) error {
			if file := c.Args().First(); file != "" {
				return usagef("backup: unexpected argument %q; it writes to standard output: agentctl backup > %[1]s", file)
			}
			return nil
		},
		Action: attached(func(s *session) error {
			if plain.Terminal(s.App.Writer) != nil {
				return usagef("a backup is not for a terminal; write it to a file: agentctl backup > agents.tar")
			}
			n, err := s.walk("backup")
			if err != nil {
				return at("backup", err)
			}
			h, err := n.Open(s.Context.Context, fsys.Read)
			if err != nil {
				return at("backup", err)
			}
			return at("backup", s.pour(h))
		}),
	}
}
