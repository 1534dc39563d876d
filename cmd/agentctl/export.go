package main

import (
	"io"

	"github.com/urfave/cli/v2"

	"agent9/cmd/internal/plain"
	"agent9/fsys"
)

func exportCommand() *cli.Command {
	return &cli.Command{
		Name:      "export",
		Usage:     "write an agent as a bundle, to move or copy it",
		ArgsUsage: "AGENT",
		Description: `Writes a tar archive to standard output: all that the agent has, as it is at one
moment; it may run. Its private key and its secrets are in it only with
--with-keys, and then sealed under a passphrase, which is asked for on the
terminal unless --passphrase-file or AGENT9_BUNDLE_PASSPHRASE gives it. Tokens
are never in it.

   agentctl export alice > alice.tar
   agentctl export --with-keys alice > alice.tar
   agentctl export alice | agentctl import --as bob --mode clone`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "with-keys", Usage: "with the private key and the secrets"},
			passphraseFlag(),
		},
		OnUsageError: usageFailed,
		Before:       takes(1, 1, "an agent"),
		BashComplete: completeAgents,
		Action: attached(func(s *session) error {
			if plain.Terminal(s.App.Writer) != nil {
				return usagef("a bundle is not for a terminal; write it to a file: agentctl export %s > %[1]s.tar", s.Args().First())
			}
			dir, err := s.bundles()
			if err != nil {
				return err
			}
			name, err := s.agent(s.Args().First())
			if err != nil {
				return err
			}
			if _, err := s.walk(name); err != nil {
				return err
			}
			name = name[len("agents/"):]
			n, err := fsys.Walk(s.Context.Context, dir, name+".tar")
			if err != nil {
				return at(name, err)
			}
			return at(name, s.export(n))
		}),
	}
}

// bundles returns the directory of bundles, which only the operator sees.
func (s *session) bundles() (fsys.Node, error) {
	if _, err := s.needAgents(); err != nil {
		return nil, err
	}
	dir, err := s.walk("bundles")
	return dir, at("bundles", err)
}

func (s *session) export(n fsys.Node) error {
	ctx := s.Context.Context
	flag := fsys.Read
	var request []byte
	if s.Bool("with-keys") {
		passphrase, err := s.passphrase(true)
		if err != nil {
			return err
		}
		flag |= fsys.Write
		request = fsys.Line(struct {
			Passphrase string `json:"passphrase"`
		}{passphrase})
	}
	h, err := n.Open(ctx, flag)
	if err != nil {
		return err
	}
	if request != nil {
		_, err = fsys.WriteAt(ctx, h, request, 0)
	}
	if err != nil {
		return s.finish(h, err)
	}
	return s.pour(h)
}

// pour writes all that h has to standard output, and closes it.
func (s *session) pour(h fsys.Handle) (err error) {
	ctx := s.Context.Context
	m := s.newMeter(false)
	defer m.done()
	out := m.writer(s.App.Writer)
	buf := make([]byte, 256<<10)
	for off := int64(0); err == nil; {
		var n int
		n, err = fsys.ReadAt(ctx, h, buf, off)
		off += int64(n)
		if _, werr := out.Write(buf[:n]); werr != nil {
			err = werr
		} else if n == 0 && err == nil {
			err = io.EOF
		}
	}
	if fsys.IsEOF(err) {
		err = nil
	}
	return s.finish(h, err)
}
