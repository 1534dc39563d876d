package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

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
ends at once, whatever it waits for. The mount outlives its daemon: for five
seconds programs wait, then they get "Input/output error", until the daemon is
back. Nothing is ever written to the directory below.

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
			if err := knownAgent(c, c.Args().Get(1)); err != nil {
				return err
			}
			if !c.Bool("foreground") {
				return background(c, dir)
			}
			return serveMount(c, dir, c.Args().Get(1))
		},
	}
}

// knownAgent fails with the reason if there is no such agent: the dialect that
// a mount speaks has no reasons.
func knownAgent(c *cli.Context, name string) error {
	if name == "" {
		return nil
	}
	s, err := dial(c, "9P2000")
	if err != nil {
		return err
	}
	defer s.client.Close()
	_, err = s.mountRoot(name)
	return err
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

// serveMount shows the tree until it is unmounted or c ends. When the daemon
// goes away the mount stays, and shows the tree again when it can be reached.
func serveMount(c *cli.Context, dir, agent string) (err error) {
	up := readiness()
	defer func() { up.tell(err) }()
	s, root, err := attach(c, agent)
	if err != nil {
		return err
	}
	defer func() {
		if s != nil {
			s.client.Close()
		}
	}()
	m, err := fuse.Mount(c.Context, root, dir, fuse.Options{AllowOther: c.Bool("allow-other")})
	if err != nil {
		return err // which names dir
	}
	up.tell(nil)
	shown, cancel := context.WithCancel(c.Context)
	defer cancel()
	go func() {
		m.Wait()
		cancel()
	}()
	for {
		select {
		case <-shown.Done():
			return at(dir, m.Unmount())
		case <-s.client.Done():
		}
		m.Lost()
		fmt.Fprintf(c.App.ErrWriter, "%s: the daemon is gone; the mount waits for it\n", dir)
		s.client.Close()
		if s, root, err = attachAgain(shown, c, agent); err != nil {
			return at(dir, m.Unmount())
		}
		m.Return(root)
		fmt.Fprintf(c.App.ErrWriter, "%s: the daemon is back\n", dir)
	}
}

// attach connects, and returns what is shown: the tree of agent, or everything.
func attach(c *cli.Context, agent string) (*session, fsys.Node, error) {
	s, err := dial(c, "9P2000.L")
	if err != nil {
		return nil, nil, err
	}
	root, err := s.mountRoot(agent)
	if err != nil {
		s.client.Close()
		return nil, nil, err
	}
	return s, root, nil
}

// Between two attempts to attach again.
const (
	firstPause = 50 * time.Millisecond
	mostPause  = 2 * time.Second
)

// attachAgain attaches, as often as it must, until ctx ends.
func attachAgain(ctx context.Context, c *cli.Context, agent string) (*session, fsys.Node, error) {
	for pause := firstPause; ; pause = min(2*pause, mostPause) {
		if s, root, err := attach(c, agent); err == nil {
			return s, root, nil
		}
		again := time.NewTimer(pause)
		select {
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
			return nil, nil, context.Cause(ctx)
		}
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
