package main

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"agent9/fsys"
)

// The words in an agent's ctl file that have a command of their own.
const (
	verbTick      = "tick"
	verbHibernate = "hibernate"
	verbWake      = "wake"
	verbStop      = "stop"
	verbStart     = "start"
	verbAlarm     = "alarm"
	verbCancel    = "cancel"
)

// verbCommand makes a command that gives agents one order.
func verbCommand(verb, usage, more string) *cli.Command {
	return &cli.Command{
		Name:         verb,
		Usage:        usage,
		ArgsUsage:    "AGENT...",
		Description:  more + "\n\n   agentctl " + verb + " alice",
		OnUsageError: usageFailed,
		BashComplete: completeManyAgents,
		Action: attached(func(s *session) error {
			names := s.Args().Slice()
			if len(names) == 0 {
				names = []string{""}
			}
			return each(s.Context.Context, s.App.ErrWriter, names, func(name string) error {
				dir, err := s.agent(name)
				if err != nil {
					return err
				}
				return s.tell(join(dir, "ctl"), verb)
			})
		}),
	}
}

func verbCommands() []*cli.Command {
	return []*cli.Command{
		verbCommand(verbHibernate, "let agents rest until something happens",
			"The next message, alarm, change of a watched file or tick ends it."),
		verbCommand(verbWake, "make agents active, also after their programs have failed",
			"What failed and waits for another attempt is tried at once, with all its attempts. A\nmessage that was given up is in deadletter/: echo 'replay all' > deadletter/ctl."),
		verbCommand(verbStop, "end what agents do, and begin nothing more",
			"Running work ends. A stopped agent still takes messages, and no work that costs."),
		verbCommand(verbStart, "let stopped agents work again",
			"Messages that came meanwhile are taken up."),
	}
}

func tickCommand() *cli.Command {
	return &cli.Command{
		Name:      verbTick,
		Usage:     "run an agent's program once",
		ArgsUsage: "AGENT [TEXT|-]",
		Description: `The tick is queued, and runs when no other one of the agent does; TEXT is given
to the program. "agentctl events AGENT" shows how it goes.

   agentctl tick alice
   agentctl tick alice "look at the build again"`,
		OnUsageError: usageFailed,
		BashComplete: completeAgents,
		Action: attached(func(s *session) error {
			dir, err := s.agent(s.Args().First())
			if err != nil {
				return err
			}
			text, err := textOf(s.Context.Context, s.App.Reader, s.Args().Tail())
			if err != nil {
				return err
			}
			text = strings.TrimSpace(text)
			if strings.ContainsAny(text, "\r\n") {
				return usagef("the text of a tick is one line; agentctl send takes more")
			}
			return s.tell(join(dir, "ctl"), strings.TrimSpace(verbTick+" "+text))
		}),
	}
}

func alarmCommand() *cli.Command {
	return &cli.Command{
		Name:      verbAlarm,
		Usage:     "run an agent's program at a time; show the alarms that are set",
		ArgsUsage: "AGENT [WHEN [TEXT]]",
		Description: `WHEN is a time from now as +5m, a time as 2030-01-31T08:00:00Z, @daily and the
like, or five fields of cron, before which TZ=ZONE may stand, in quotes. TEXT is
given to the program. The alarm's number is printed.

   agentctl alarm alice +5m "look again"
   agentctl alarm alice "TZ=Europe/Berlin 0 8 * * 1-5" "good morning"
   agentctl alarm alice
   agentctl alarm alice --cancel 2`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "cancel", Usage: "take back the alarm with this `ID`"},
			jsonFlag(),
		},
		OnUsageError: usageFailed,
		BashComplete: completeAgents,
		Action: attached(func(s *session) error {
			dir, err := s.agent(s.Args().First())
			if err != nil {
				return err
			}
			ctl, when, id := join(dir, "ctl"), s.Args().Tail(), s.String("cancel")
			switch {
			case id != "" && len(when) > 0:
				return usagef("alarm: --cancel takes only the agent")
			case id != "":
				return s.tell(ctl, verbCancel+" "+oneLine(id))
			case len(when) == 0:
				return s.listAlarms(ctl)
			}
			reply, err := s.converse(s.Context.Context, ctl, []byte(verbAlarm+" "+oneLine(strings.Join(when, " "))+"\n"))
			if err != nil {
				return err
			}
			if s.Bool("json") {
				return s.printJSON(alarmLine{ID: string(bytes.TrimSpace(reply))})
			}
			_, err = s.App.Writer.Write(reply)
			return err
		}),
	}
}

// An alarmLine is what reading ctl says of an alarm.
type alarmLine struct {
	ID   string `json:"id"`
	Next string `json:"next,omitempty"`
	When string `json:"when,omitempty"`
	Text string `json:"text,omitempty"`
}

// alarms returns the alarms in an agent's ctl file, whose lines are
// "# alarm ID", the next time, when, and the text.
func (s *session) alarms(ctl string) (list []alarmLine, _ error) {
	b, err := s.readFile(ctl)
	if err != nil {
		return nil, at(ctl, err)
	}
	for line := range strings.Lines(string(b)) {
		rest, is := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "# alarm ")
		if f := strings.SplitN(rest, "\t", 4); is && len(f) == 4 {
			list = append(list, alarmLine{f[0], f[1], f[2], f[3]})
		}
	}
	return list, nil
}

func (s *session) listAlarms(ctl string) error {
	list, err := s.alarms(ctl)
	if err != nil {
		return err
	}
	t := newTable(s.App.Writer)
	if !s.Bool("json") {
		t = newTable(s.App.Writer, "ID", "NEXT", "WHEN", "TEXT")
	}
	for _, a := range list {
		if s.Bool("json") {
			s.printJSON(a)
			continue
		}
		t.row(a.ID, a.Next, a.When, a.Text)
	}
	return t.flush()
}

// tell writes one command to the ctl file at p.
func (s *session) tell(p, command string) error {
	h, err := s.open(p, fsys.Write)
	if err != nil {
		return at(p, err)
	}
	_, err = fsys.WriteAt(s.Context.Context, h, fmt.Appendln(nil, command), 0)
	return at(p, s.finish(h, err))
}
