package main

import (
	"path/filepath"

	"github.com/urfave/cli/v2"

	"agent9/fsys"
	"agent9/fsys/export/fuse"
)

func mountCommand() *cli.Command {
	return &cli.Command{
		Name:      "mount",
		Usage:     "show the tree, or one agent's, as a directory of this machine",
		ArgsUsage: "DIR [AGENT]",
		Description: `DIR must be an empty directory. The command returns when the tree is there, and
serves it in the background until "agentctl umount DIR". An interrupted read
ends at once, whatever it waits for.

   agentctl mount /n/agents
   agentctl mount /n/alice alice`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "foreground", Usage: "do not return; an interrupt unmounts"},
			&cli.BoolFlag{Name: "allow-other", Usage: "let other users of this machine in"},
		},
		OnUsageError: usageFailed,
		Before:       takes(1, 2, "a directory"),
		BashComplete: completeMount,
		Action: func(c *cli.Context) error {
			dir, err := filepath.Abs(c.Args().First())
			if err != nil {
				return err
			}
			if !c.Bool("foreground") {
				return background(c, dir)
			}
			return serveMount(c, dir, c.Args().Get(1))
		},
	}
}

// completeMount offers agents as the second argument, and leaves the first to
// the shell.
func completeMount(c *cli.Context) {
	completeWith(func(s *session, word string) error {
		agents, err := s.agents()
		if err != nil || agents == nil || s.NArg() != 1 {
			return err
		}
		return s.offer(agents, "", word, false)
	})(c)
}

// serveMount shows the tree until it is unmounted or c ends.
func serveMount(c *cli.Context, dir, agent string) (err error) {
	up := readiness()
	defer func() { up.tell(err) }()
	s, err := dial(c, "9P2000.L")
	if err != nil {
		return err
	}
	defer s.client.Close()
	root, err := s.mountRoot(agent)
	if err != nil {
		return err
	}
	m, err := fuse.Mount(c.Context, root, dir, fuse.Options{AllowOther: c.Bool("allow-other")})
	if err != nil {
		return err // which names dir
	}
	up.tell(nil)
	gone := make(chan struct{})
	go func() {
		m.Wait()
		close(gone)
	}()
	select {
	case <-gone:
		return nil
	case <-c.Done():
		return at(dir, m.Unmount())
	case <-s.client.Done():
		m.Unmount()
		return at(dir, fsys.E(fsys.Unavailable, "the daemon is gone; it is unmounted"))
	}
}

// mountRoot returns what is shown: the tree of agent, or everything.
func (s *session) mountRoot(agent string) (fsys.Node, error) {
	if agent == "" {
		return s.root, nil
	}
	dir, err := s.agent(agent)
	if err != nil {
		return nil, err
	}
	n, err := s.walk(dir)
	return n, at(agent, err)
}

func umountCommand() *cli.Command {
	return &cli.Command{
		Name:         "umount",
		Aliases:      []string{"unmount"},
		Usage:        "take away what mount has shown",
		ArgsUsage:    "DIR...",
		Description:  `   agentctl umount /n/alice`,
		OnUsageError: usageFailed,
		Before:       takes(1, -1, "a directory"),
		Action: func(c *cli.Context) error {
			return each(c.Context, c.App.ErrWriter, c.Args().Slice(), func(dir string) error {
				return at(dir, fuse.Unmount(dir))
			})
		},
	}
}
