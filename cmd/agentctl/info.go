package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"agent9/cmd/internal/money"
	"agent9/cmd/internal/plain"
	"agent9/fsys"
)

func infoCommand() *cli.Command {
	return &cli.Command{
		Name:      "info",
		Usage:     "show everything about an agent on one screen",
		ArgsUsage: "AGENT",
		Description: `Its state, settings, money, work, alarms, goals, what waits for agreement, and
what happened last. What does not exist in the tree that is seen is left out.

   agentctl info alice
   agentctl info alice --json | jq .budget.usage`,
		Flags:        []cli.Flag{jsonFlag()},
		OnUsageError: usageFailed,
		Before:       takes(0, 1, ""),
		BashComplete: completeAgents,
		Action:       attached(info),
	}
}

// An overview is what is known about an agent.
type overview struct {
	Status     json.RawMessage   `json:"status"`
	Npub       string            `json:"npub,omitempty"`
	Config     json.RawMessage   `json:"config,omitempty"`
	Budget     *books            `json:"budget,omitempty"`
	Compute    json.RawMessage   `json:"compute,omitempty"`    // its usage
	Containers json.RawMessage   `json:"containers,omitempty"` // its usage
	Alarms     []alarmLine       `json:"alarms,omitempty"`
	Approvals  []json.RawMessage `json:"approvals,omitempty"`
	Goals      []goal            `json:"goals,omitempty"`
	Skills     []string          `json:"skills,omitempty"`
	Events     []json.RawMessage `json:"events,omitempty"` // the last ones

	report    statusReport
	approvals []approvalReport
}

func info(s *session) error {
	dir, err := s.agent(s.Args().First())
	if err != nil {
		return err
	}
	o, err := s.overview(dir)
	if err != nil {
		return err
	}
	if s.Bool("json") {
		return s.printJSON(o)
	}
	return s.printOverview(o)
}

// recentEvents is how many events an overview has.
const recentEvents = 5

// overview reads what there is about the agent whose tree is dir. What the
// caller may not see is left out.
func (s *session) overview(dir string) (*overview, error) {
	o := &overview{}
	var err error
	if o.report, err = s.report(dir); err != nil {
		return nil, err
	}
	o.Status = raw(o.report.raw)
	reads := []func() error{
		func() error {
			b, err := s.readFile(join(dir, "identity/npub"))
			o.Npub = strings.TrimSpace(string(b))
			return err
		},
		func() error { return s.readRaw(join(dir, "config"), &o.Config) },
		func() error { return s.readRaw(join(dir, "compute/usage"), &o.Compute) },
		func() error { return s.readRaw(join(dir, "containers/usage"), &o.Containers) },
		func() error {
			var b books
			err := s.readBooks(join(dir, "budget"), recentEvents, &b)
			if err == nil {
				o.Budget = &b
			}
			return err
		},
		func() (err error) { o.Alarms, err = s.alarms(join(dir, "ctl")); return err },
		func() (err error) {
			o.approvals, err = s.approvals(dir)
			for _, a := range o.approvals {
				o.Approvals = append(o.Approvals, objectOf(a.fields))
			}
			return err
		},
		func() error {
			n, err := s.walk(join(dir, "goals"))
			if err == nil {
				o.Goals, err = s.goalsIn(n, "", nil)
			}
			return err
		},
		func() (err error) { o.Skills, err = s.names(join(dir, "skills")); return err },
		func() error {
			lines, err := s.lastLines(join(dir, "logs/trajectory"), recentEvents)
			for _, line := range lines {
				o.Events = append(o.Events, raw(line))
			}
			return err
		},
	}
	errs := make([]error, len(reads))
	parallel(len(reads), func(i int) { errs[i] = reads[i]() })
	for _, err := range errs {
		if code := fsys.CodeOf(err); err != nil && code != fsys.NotExist && code != fsys.Permission {
			return nil, err
		}
	}
	return o, nil
}

func (s *session) readRaw(p string, to *json.RawMessage) error {
	b, err := s.readFile(p)
	if err == nil {
		*to = raw(b)
	}
	return at(p, err)
}

func (s *session) printOverview(o *overview) error {
	t := newTable(s.App.Writer)
	statusRows(t, o.report)
	if o.Npub != "" {
		t.row("npub", o.Npub)
	}
	if program, err := getField(o.Config, "program"); err == nil {
		t.row("program", short(string(program), 100))
	}
	if settings := settingNames(o.Config); settings != "" {
		t.row("settings", settings)
	}
	if o.Budget != nil {
		if day, err := getField(o.Budget.Limits, "per_day_microusd"); err == nil && string(day) != "null" {
			t.row("limits", "a day "+strings.TrimPrefix(fieldText(field{"_microusd", day}), "="))
		}
	}
	for _, u := range []struct {
		name, states string
		usage        json.RawMessage
	}{{"models", "jobs", o.Compute}, {"sandboxes", "sessions", o.Containers}} {
		if counts := counts(u.usage, u.states); counts != "" {
			t.row(u.name, counts)
		}
	}
	if len(o.Skills) > 0 {
		t.row("skills", short(strings.Join(o.Skills, ", "), 100))
	}
	if err := t.flush(); err != nil {
		return err
	}
	out := s.App.Writer
	section(out, "WAITS FOR AGREEMENT", len(o.approvals), func(i int) string {
		a := o.approvals[i]
		return fmt.Sprintf("%s  %s, at most %s: agentctl approve %s %[1]s", a.ID, a.What, money.Text(a.Max), o.report.Name)
	})
	section(out, "ALARMS", len(o.Alarms), func(i int) string {
		a := o.Alarms[i]
		return fmt.Sprintf("%s  %s  %s  %s", a.ID, a.Next, a.When, a.Text)
	})
	section(out, "GOALS", len(o.Goals), func(i int) string { return o.Goals[i].Goal + "  " + o.Goals[i].Text })
	section(out, "LAST EVENTS", len(o.Events), func(i int) string {
		fields, err := fieldsOf(o.Events[i])
		if err != nil {
			return string(o.Events[i])
		}
		return eventText(fields)
	})
	return nil
}

// maxSection is how many lines of a section are shown.
const maxSection = 10

// section prints a heading and n lines, if there are any.
func section(w io.Writer, heading string, n int, line func(i int) string) {
	if n == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s\n", heading)
	for i := range min(n, maxSection) {
		fmt.Fprintf(w, "  %s\n", plain.Line(line(i)))
	}
	if n > maxSection {
		fmt.Fprintf(w, "  and %d more\n", n-maxSection)
	}
}

// counts says how many of something are in which state, of a usage file.
func counts(usage json.RawMessage, what string) string {
	value, err := getField(usage, what)
	if err != nil {
		return ""
	}
	states, _ := fieldsOf(value)
	var words []string
	for _, f := range states {
		if string(f.value) != "0" {
			words = append(words, string(f.value)+" "+f.name)
		}
	}
	return strings.Join(words, ", ")
}

// settingNames names what is set in config, but for the program.
func settingNames(config json.RawMessage) string {
	var words []string
	fields, _ := fieldsOf(config)
	for _, f := range fields {
		if f.name != "program" {
			words = append(words, f.name+" "+string(bytes.TrimSpace(f.value)))
		}
	}
	return short(strings.Join(words, ", "), 100)
}
