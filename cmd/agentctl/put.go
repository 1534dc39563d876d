package main

import (
	"context"
	"io"
	"os"
	"path"

	"github.com/urfave/cli/v2"

	"agent9/fsys"
)

func putCommand() *cli.Command {
	return &cli.Command{
		Name:      "put",
		Usage:     "write a file; of a message file, print the reply",
		ArgsUsage: "PATH [FILE|-]",
		Description: `What is written is FILE, or standard input. A file that does not exist is made.
Of a message file, what is written is one request, and the reply is printed.

   echo "ship it" | agentctl put agents/alice/goals/today
   echo stop | agentctl put agents/alice/ctl
   agentctl put agents/alice/identity/sign contract.txt`,
		Flags:        []cli.Flag{&cli.BoolFlag{Name: "append", Usage: "add to the end of the file"}},
		OnUsageError: usageFailed,
		Before:       takes(1, 2, "a path"),
		BashComplete: completePaths,
		Action: attached(func(s *session) error {
			in := s.App.Reader
			if file := s.Args().Get(1); file != "" && file != "-" {
				f, err := os.Open(file)
				if err != nil {
					return err
				}
				defer f.Close()
				in = f
			}
			p := s.Args().First()
			return at(p, s.put(p, input(s.Context.Context, in)))
		}),
	}
}

func (s *session) put(p string, in io.Reader) error {
	ctx := s.Context.Context
	flag := fsys.Write | fsys.Trunc
	if s.Bool("append") {
		flag = fsys.Write | fsys.Append
	}
	n, err := s.walk(p)
	if err == nil {
		return s.putInto(n, flag, in)
	}
	if fsys.CodeOf(err) != fsys.NotExist {
		return err
	}
	dir, err := s.walk(path.Dir(clean(p)))
	if err != nil {
		return err
	}
	_, h, err := fsys.OpenCreate(ctx, dir, path.Base(clean(p)), 0o644, flag)
	if err != nil {
		return err
	}
	return s.finish(h, writeAll(ctx, h, in))
}

func (s *session) putInto(n fsys.Node, flag fsys.Flag, in io.Reader) error {
	ctx := s.Context.Context
	info, err := n.Stat(ctx)
	if err != nil {
		return err
	}
	if info.Kind == fsys.Message {
		return s.request1(n, in)
	}
	h, err := n.Open(ctx, flag)
	if err != nil {
		return err
	}
	return s.finish(h, writeAll(ctx, h, in))
}

// request1 writes one request to a Message file and prints the reply. A file
// that cannot be read gives none.
func (s *session) request1(n fsys.Node, in io.Reader) error {
	ctx := s.Context.Context
	h, err := n.Open(ctx, fsys.Read|fsys.Write)
	silent := err != nil && fsys.CodeOf(err) == fsys.Permission
	if silent {
		h, err = n.Open(ctx, fsys.Write)
	}
	if err != nil {
		return err
	}
	if err = writeAll(ctx, h, in); err == nil && !silent {
		err = s.copyTo(s.App.Writer, h, 0)
	}
	return s.finish(h, err)
}

// writeAll copies in to h from offset 0 on.
func writeAll(ctx context.Context, h fsys.Handle, in io.Reader) error {
	buf := make([]byte, 256<<10)
	for off := int64(0); ; {
		n, err := io.ReadFull(in, buf)
		if n > 0 {
			if _, werr := fsys.WriteAt(ctx, h, buf[:n], off); werr != nil {
				return werr
			}
			off += int64(n)
		}
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
