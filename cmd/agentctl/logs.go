package main

import (
	"bytes"
	"encoding/json"
	"io"

	"github.com/urfave/cli/v2"

	"agent9/fsys"
)

func logsCommand() *cli.Command {
	return &cli.Command{
		Name:      "logs",
		Usage:     "print what happened to an agent, as JSON lines",
		ArgsUsage: "AGENT",
		Description: `Without a flag the last events. --errors is every refused operation with its
reason; --trace is what happens from now on.

   agentctl logs alice
   agentctl logs -f alice | jq -r .event
   agentctl logs --errors alice`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "go on as more is written"},
			&cli.BoolFlag{Name: "errors", Usage: "refused operations, from the first"},
			&cli.BoolFlag{Name: "trace", Usage: "follow from now on"},
			&cli.BoolFlag{Name: "all", Usage: "every event, from the first"},
		},
		OnUsageError: usageFailed,
		Before:       takes(0, 1, ""),
		BashComplete: completeAgents,
		Action:       attached(logs),
	}
}

func logs(s *session) error {
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
	p := join(dir, "logs/recent")
	return at(p, s.cat(p))
}

// printErrors prints the refusals that there are and, with follow, those that
// come, which are events.
func (s *session) printErrors(dir string, follow bool) error {
	errs, trace := join(dir, "logs/errors"), join(dir, "logs/trace")
	if !follow {
		return at(errs, s.cat(errs))
	}
	h, err := s.open(trace, fsys.Read) // first, so that none is missed
	if err != nil {
		return at(trace, err)
	}
	if err := at(errs, s.cat(errs)); err != nil {
		h.Close()
		return err
	}
	w := &refusals{w: s.App.Writer}
	return at(trace, s.finish(h, copyUntil(s.Context.Context, w, h, 0, -1)))
}

// refusals passes on the lines of refusals.
type refusals struct {
	w    io.Writer
	line []byte
}

func (r *refusals) Write(p []byte) (int, error) {
	for line := range bytes.Lines(p) {
		r.line = append(r.line, line...)
		if !bytes.HasSuffix(r.line, []byte("\n")) {
			break
		}
		var e struct{ Event string }
		if json.Unmarshal(r.line, &e) == nil && e.Event == "refused" {
			if _, err := r.w.Write(r.line); err != nil {
				return 0, err
			}
		}
		r.line = r.line[:0]
	}
	return len(p), nil
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
	}
	w := s.App.Writer
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
