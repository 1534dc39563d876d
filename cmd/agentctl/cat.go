package main

import (
	"context"
	"io"

	"github.com/urfave/cli/v2"

	"agent9/cmd/internal/plain"
	"agent9/fsys"
)

func catCommand() *cli.Command {
	return &cli.Command{
		Name:      "cat",
		Usage:     "print files; a stream is followed until it ends",
		ArgsUsage: "PATH...",
		Description: `Reading begins at --offset, so a stream can be taken up again where it was
left. A terminal is shown characters, and no commands to it: what is not text
is a space or U+FFFD. With --raw, and always where the output is no terminal,
the bytes are those of the file.

   agentctl cat agents/alice/status
   agentctl cat agents/alice/logs/trace
   agentctl cat --offset 4096 agents/alice/logs/trajectory`,
		Flags: []cli.Flag{
			&cli.Int64Flag{Name: "offset", DefaultText: "the first", Usage: "begin at byte `N`, counted from 0"},
			&cli.BoolFlag{Name: "raw", Usage: "give a terminal the bytes as they are, which may command it"},
		},
		OnUsageError: usageFailed,
		Before:       takes(1, -1, "a path"),
		BashComplete: completePaths,
		Action: attached(func(s *session) error {
			return each(s.Context.Context, s.App.ErrWriter, s.Args().Slice(), func(name string) error {
				return at(name, s.cat(name))
			})
		}),
	}
}

// cat prints the file at p. If the output fails, the file is left open: what
// was read and not printed counts as not taken.
func (s *session) cat(p string) error {
	h, err := s.open(p, fsys.Read)
	if err != nil {
		return err
	}
	defer endUnread(s.App.Writer)()
	out := s.App.Writer
	if s.Bool("raw") {
		out = plain.Bare(out)
	}
	if err := s.copyTo(out, h, s.Int64("offset")); err != nil {
		return err
	}
	return fsys.Finish(s.Context.Context, h)
}

// copyTo copies what h has from off on to w, as it comes.
func (s *session) copyTo(w io.Writer, h fsys.Handle, off int64) error {
	return copyUntil(s.Context.Context, w, h, off, -1)
}

// copyUntil copies what h has from off to end, or to its own end if end is
// negative.
func copyUntil(ctx context.Context, w io.Writer, h fsys.Handle, off, end int64) error {
	buf := make([]byte, 256<<10)
	for end < 0 || off < end {
		p := buf
		if end >= 0 {
			p = buf[:min(int64(len(buf)), end-off)]
		}
		n, err := fsys.ReadAt(ctx, h, p, off)
		off += int64(n)
		if _, werr := w.Write(p[:n]); werr != nil {
			return werr
		}
		if fsys.IsEOF(err) || err == nil && n == 0 {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}
