package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"agent9/fsys"
)

func askCommand() *cli.Command {
	return &cli.Command{
		Name:      "ask",
		Usage:     "ask a model for the agent, and print the answer as it comes",
		ArgsUsage: "AGENT TEXT|-",
		Description: `TEXT is what the user says, or "-" to read it from standard input. A JSON
object is taken as a whole request in the form of OpenAI's chat completions.
An interrupt cancels the job; with --detach the job's directory is printed
instead of the answer, and the job goes on by itself.

   agentctl ask alice "why is the sky blue?"
   agentctl ask alice --model gpt-5-mini --max-cost '$0.01' - < question.txt
   agentctl ask alice --json "one word" | jq .usage`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "model", Aliases: []string{"m"}, Usage: "`MODEL` to ask, instead of the default one"},
			&cli.StringFlag{Name: "max-cost", Usage: "most that it may cost: `AMOUNT` such as '$0.01', 1c or 5000microusd"},
			&cli.BoolFlag{Name: "json", Usage: "print the whole response as JSON when it is there"},
			&cli.BoolFlag{Name: "detach", Aliases: []string{"d"}, Usage: "print the job's directory and do not wait"},
		},
		OnUsageError: usageFailed,
		Before:       takes(1, -1, "the question"),
		BashComplete: completeAgents,
		Action:       attached(ask),
	}
}

func ask(s *session) error {
	dir, words, err := s.agentAnd("the question")
	if err != nil {
		return err
	}
	text, err := textOf(s.Context.Context, s.App.Reader, words)
	if err != nil {
		return err
	}
	req, err := s.request(text)
	if err != nil {
		return err
	}
	reply, err := s.submit(join(dir, "compute/new"), req)
	if err != nil {
		return err
	}
	job := join(dir, "compute/jobs/"+strings.TrimSpace(string(reply)))
	if s.Bool("detach") {
		_, err := fmt.Fprintln(s.App.Writer, job)
		return err
	}
	s.awaits(dir, join(job, "status"))
	file := "output"
	if s.Bool("json") {
		file = "result"
	}
	err = s.answer(join(job, file))
	if ctx := s.Context.Context; ctx.Err() != nil {
		s.order(ctx, join(job, "ctl"), "cancel")
		return context.Cause(ctx)
	}
	if failed := s.outcome(job); failed != nil {
		return failed
	}
	return err
}

// request returns the body for compute/new.
func (s *session) request(text string) ([]byte, error) {
	req, err := object(text)
	if err != nil {
		return nil, err
	}
	if req == nil {
		type message struct {
			Role    string `json:"role"`
			Content string `json:"content"`
		}
		req = object1("messages", []message{{"user", text}})
	}
	if m := s.String("model"); m != "" {
		req["model"] = fsys.Line(m)
	}
	if s.IsSet("max-cost") {
		micros, err := s.amount("max-cost")
		if err != nil {
			return nil, err
		}
		req["max_cost_microusd"] = fsys.Line(micros)
	}
	return fsys.Line(req), nil
}

// submit is converse, but goes on a little after an interrupt: who does not
// know a job's number cannot cancel it.
func (s *session) submit(p string, req []byte) ([]byte, error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.Context.Context))
	defer cancel()
	stop := context.AfterFunc(s.Context.Context, func() { time.AfterFunc(patience/2, cancel) })
	defer stop()
	return s.converse(ctx, p, req)
}

// answer copies the stream at p to the output, which it ends with a newline.
func (s *session) answer(p string) error {
	h, err := s.open(p, fsys.Read)
	if err != nil {
		return at(p, err)
	}
	out := &lastByte{w: s.App.Writer}
	err = s.copyTo(out, h, 0)
	if out.b != 0 && out.b != '\n' {
		fmt.Fprintln(s.App.Writer)
	}
	return at(p, s.finish(h, err))
}

// outcome returns why the job failed, or nil if it is done.
func (s *session) outcome(job string) error {
	var status struct {
		State string `json:"state"`
		Error struct {
			Code   string `json:"code"`
			Reason string `json:"reason"`
		} `json:"error"`
	}
	if err := s.readJSON(join(job, "status"), &status, nil); err != nil {
		return err
	}
	why := status.State
	switch {
	case why != "failed" && why != "cancelled":
		return nil
	case status.Error.Reason != "":
		why += ": " + status.Error.Reason
	case why == "cancelled":
		return at(job, fsys.E(fsys.Canceled, why))
	}
	return at(job, codeNamed(status.Error.Code, why))
}

// lastByte passes writes on and remembers what was last.
type lastByte struct {
	w io.Writer
	b byte
}

func (l *lastByte) Write(p []byte) (int, error) {
	if len(p) > 0 {
		l.b = p[len(p)-1]
	}
	return l.w.Write(p)
}
