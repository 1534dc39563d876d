package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"agent9/fsys"
)

func chatCommand() *cli.Command {
	return &cli.Command{
		Name:      "chat",
		Usage:     "talk with an agent, in a session that others may be in too",
		ArgsUsage: "AGENT [SESSION]",
		Description: `Without SESSION a new one is begun; with it the session goes on where it was,
also if it had ended. Each line is a prompt, and a line that begins with / is a
command: /cancel [N], /pause, /resume, /end.

An interrupt cancels the answer that comes; without one it leaves, as the end of
the input does, and the session stays. If the input is no terminal, the answers
to what was asked are waited for. When the daemon is restarted, chat comes back
to where it was.

   agentctl chat alice
   agentctl chat alice 3
   agentctl chat alice --list
   echo "why is the sky blue?" | agentctl chat alice --json | jq .text`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "list", Usage: "show the sessions that there are"},
			&cli.BoolFlag{Name: "json", Usage: "print the transcript, as JSON lines, instead of the text"},
			&cli.BoolFlag{Name: "all", Usage: "print what was said before, too"},
			&cli.StringFlag{Name: "title", Usage: "`TITLE` of a new session"},
			&cli.StringFlag{Name: "profile", Usage: "`PROFILE` of a new session, one of the agent's configuration"},
		},
		OnUsageError: usageFailed,
		Before:       takes(0, 2, ""),
		BashComplete: completeTalks,
		Action: func(c *cli.Context) error {
			if c.Bool("list") {
				return attached(listSessions)(c)
			}
			return chat(c)
		},
	}
}

// A sessionReport is what the commands use of a session's status file.
type sessionReport struct {
	Session int64  `json:"session"`
	State   string `json:"state"`
	Title   string `json:"title"`
	Active  string `json:"active"`
	Prompts int64  `json:"prompts"`
	Waiting int    `json:"waiting"`

	raw []byte
}

func listSessions(s *session) error {
	dir, err := s.agent(s.Args().First())
	if err != nil {
		return err
	}
	dir = join(dir, "sessions")
	n, err := s.walk(dir)
	if err != nil {
		return at(dir, err)
	}
	entries, err := fsys.List(s.Context.Context, n)
	if err != nil {
		return at(dir, err)
	}
	t := newTable(s.App.Writer)
	if !s.Bool("json") {
		t = newTable(s.App.Writer, "SESSION", "STATE", "PROMPTS", "WAITING", "ACTIVE", "TITLE")
	}
	for _, e := range entries {
		var r sessionReport
		if _, err := strconv.Atoi(e.Name); err != nil {
			continue
		}
		switch err := s.readJSON(join(dir, e.Name+"/status"), &r, &r.raw); {
		case err != nil && fsys.CodeOf(err) == fsys.NotExist: // it was removed meanwhile
		case err != nil:
			return err
		case s.Bool("json"):
			s.App.Writer.Write(r.raw)
		default:
			t.row(r.Session, r.State, r.Prompts, r.Waiting, r.Active, r.Title)
		}
	}
	return t.flush()
}

// A talk is a session with a person, or what stands in for one, at this end.
type talk struct {
	*cli.Context
	agent, number string // of the session
	terminal      bool
	signals       chan os.Signal
	link          *link
	view          view
	own           map[int64]bool // prompts that were written here, and have no answer yet
	failed        bool           // one of them, or a line that was not taken
}

// chat is the command. It has its own way with interrupts.
func chat(c *cli.Context) error {
	ended := c.Context
	c.Context = context.WithoutCancel(ended)
	t := &talk{Context: c, agent: c.Args().First(), signals: make(chan os.Signal, 8), own: map[int64]bool{}}
	signal.Notify(t.signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(t.signals)
	if f, ok := c.App.Reader.(*os.File); ok {
		t.terminal = term.IsTerminal(int(f.Fd()))
	}
	t.view = view{talk: t, atStart: true}
	if err := t.connect(); err != nil {
		return err
	}
	defer func() { t.link.close() }()
	if err := t.loop(ended); err != nil {
		return err
	}
	if t.failed && !t.terminal {
		return errReported
	}
	return nil
}

// loop does what comes, until it is time to leave.
func (t *talk) loop(ended context.Context) error {
	input, done := inputLines(t.App.Reader), ended.Done()
	t.view.ready()
	for t.link != nil && (input != nil || len(t.own) > 0) {
		var err error
		select {
		case line, ok := <-input:
			if !ok {
				if input = nil; t.terminal {
					return nil
				}
				continue
			}
			err = t.say(line)
		case p := <-t.link.transcript:
			err = t.view.said(p)
		case p := <-t.link.stream:
			err = t.view.came(p)
		case err = <-t.link.lost:
		case sig := <-t.signals:
			if sig != os.Interrupt || t.view.running == 0 {
				return nil
			}
			err = t.command(fmt.Sprintf("cancel %d", t.view.running))
		case <-done:
			if done = nil; context.Cause(ended) == context.Canceled { // by no signal
				return nil
			}
		}
		switch {
		case errors.Is(err, errLeave):
			return nil
		case err != nil:
			if err := t.reconnect(err); err != nil {
				return err
			}
		}
	}
	return nil
}

// errLeave says that there is nothing more to come.
var errLeave = errors.New("the session has ended")

// inputLines gives the lines of r. It ends with them, or with the process:
// nothing can interrupt a read of a terminal.
func inputLines(r io.Reader) <-chan string {
	lines := make(chan string)
	go func() {
		defer close(lines)
		for s := bufio.NewReader(r); ; {
			line, err := s.ReadString('\n')
			if line = strings.TrimRight(line, "\r\n"); strings.TrimSpace(line) != "" {
				lines <- line
			}
			if err != nil {
				return
			}
		}
	}()
	return lines
}

// say takes a line of the input: a prompt, or a command.
func (t *talk) say(line string) error {
	if command, ok := strings.CutPrefix(line, "/"); ok {
		return t.command(command)
	}
	reply, err := t.link.s.converse(t.link.ctx, t.path("prompt"), []byte(line))
	if err != nil {
		return t.refused(err)
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(reply)), 10, 64)
	if err != nil {
		return t.refused(fsys.E(fsys.Invalid, "the prompt file answers "+strconv.Quote(string(reply))))
	}
	t.own[n] = true
	return nil
}

// command writes a line to the session's ctl.
func (t *talk) command(line string) error {
	if err := fsys.WriteFile(t.link.ctx, t.link.s.root, t.path("ctl"), []byte(line+"\n")); err != nil {
		return t.refused(err)
	}
	t.view.ready()
	return nil
}

// refused says why something was not done, or returns err if the connection
// was lost, and nobody knows.
func (t *talk) refused(err error) error {
	t.failed = true
	if t.link.over() {
		t.notice("it is not known whether that was taken")
		return err
	}
	t.notice(words(err))
	t.view.ready()
	return nil
}

// notice tells the person something that is not of the conversation.
func (t *talk) notice(text string) {
	t.view.newline()
	notice(t.App.ErrWriter, "%s", text)
}

// path is that of a file of the session.
func (t *talk) path(file string) string {
	return clean(join(t.link.dir, "sessions/"+t.number+"/"+file))
}
