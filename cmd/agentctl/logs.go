package main

import (
	"bytes"
	"io"
	"path"

	"github.com/urfave/cli/v2"

	"agent9/fsys"
)

func logsCommand() *cli.Command {
	return &cli.Command{
		Name:      "logs",
		Usage:     "print what happened to an agent",
		ArgsUsage: "AGENT",
		Description: `Without a flag the last events. --errors is every refused operation with its
reason; --trace is what happens from now on. With --json the lines are as in the
tree.

   agentctl logs alice
   agentctl logs -f alice --json | jq -r .event
   agentctl logs --errors alice`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "go on as more is written"},
			&cli.BoolFlag{Name: "errors", Usage: "refused operations, from the first"},
			&cli.BoolFlag{Name: "trace", Usage: "follow from now on"},
			&cli.BoolFlag{Name: "all", Usage: "every event, from the first"},
			eventFlag(),
			jsonFlag(),
		},
		OnUsageError: usageFailed,
		Before:       takes(0, 1, ""),
		BashComplete: completeAgents,
		Action:       attached(logs),
	}
}

func logs(s *session) error {
	if _, err := path.Match(s.String("event"), ""); err != nil {
		return usagef("--event %s is not a glob; such are 'compute.*' and 'inbox.*'", s.String("event"))
	}
	dir, err := s.agent(s.Args().First())
	if err != nil {
		return err
	}
	follow := s.Bool("follow")
	switch {
	case s.Bool("trace"):
		return s.printStream(join(dir, "logs/trace"), true, 0)
	case s.Bool("errors"):
		return s.printErrors(dir, follow)
	case s.Bool("all"):
		return s.printStream(join(dir, "logs/trajectory"), follow, 0)
	case follow:
		return s.printStream(join(dir, "logs/trajectory"), true, lastEvents)
	}
	return s.printText(join(dir, "logs/recent"))
}

// printText prints the events in the file at p, which ends.
func (s *session) printText(p string) error {
	b, err := s.readFile(p)
	if err == nil {
		_, err = s.eventLines().Write(b)
	}
	return at(p, err)
}

// printErrors prints the refusals that there are and, with follow, those that
// come, which are events.
func (s *session) printErrors(dir string, follow bool) error {
	errs, trace := join(dir, "logs/errors"), join(dir, "logs/trace")
	if !follow {
		return s.printText(errs)
	}
	h, err := s.open(trace, fsys.Read) // first, so that none is missed
	if err != nil {
		return at(trace, err)
	}
	if err := s.printText(errs); err != nil {
		h.Close()
		return err
	}
	defer endUnread(s.App.Writer)()
	w := s.eventLines()
	w.glob = "refused"
	return at(trace, s.finish(h, copyUntil(s.Context.Context, w, h, 0, -1)))
}

// lastEvents is how many bytes of what was before -f shows first.
const lastEvents = 8 << 10

// printStream prints the stream at p: what there is now and, with follow,
// what comes. If last is not 0, of what there is only the whole lines in that
// many last bytes.
func (s *session) printStream(p string, follow bool, last int64) error {
	n, err := s.walk(p)
	if err != nil {
		return at(p, err)
	}
	info, err := n.Stat(s.Context.Context)
	if err != nil {
		return at(p, err)
	}
	h, err := n.Open(s.Context.Context, fsys.Read)
	if err != nil {
		return at(p, err)
	}
	end, off := info.Size, int64(0)
	if follow {
		end = -1
		defer endUnread(s.App.Writer)()
	}
	var w io.Writer = s.eventLines()
	if last > 0 && info.Size > last {
		off = info.Size - last
		w = &wholeLines{w: w}
	}
	return at(p, s.finish(h, copyUntil(s.Context.Context, w, h, off, end)))
}

// wholeLines drops what comes before the first newline.
type wholeLines struct {
	w     io.Writer
	began bool
}

func (l *wholeLines) Write(p []byte) (int, error) {
	if l.began {
		return l.w.Write(p)
	}
	_, rest, found := bytes.Cut(p, []byte("\n"))
	if l.began = found; !found {
		return len(p), nil
	}
	_, err := l.w.Write(rest)
	return len(p), err
}
