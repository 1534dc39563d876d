package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"agent9/cmd/internal/money"
	"agent9/cmd/internal/plain"
	"agent9/fsys"
)

type limitFlag struct{ flag, field, usage string }

// limitFlags are the flags that set a limit, and the fields of budget/limits.
var limitFlags = []limitFlag{
	{"per-tick", "per_tick_microusd", "let a tick spend `AMOUNT`"},
	{"per-day", "per_day_microusd", "let a UTC day cost `AMOUNT`"},
	{"total", "total_microusd", "let all time cost `AMOUNT`"},
	{"approval", "approval_threshold_microusd", "ask a person before work that may cost more than `AMOUNT`"},
}

func budgetCommand() *cli.Command {
	flags := []cli.Flag{}
	for _, l := range limitFlags {
		flags = append(flags, &cli.StringFlag{Name: l.flag, Usage: l.usage})
	}
	return &cli.Command{
		Name:      "budget",
		Usage:     "show what an agent has spent and may spend, and set its limits",
		ArgsUsage: "AGENT",
		Description: `AMOUNT has a unit: '$2', 2usd, 50c or 5000microusd; none takes the limit away.
What is set holds at once, and is printed. LEFT and "left" are what can really be
spent now: what is held is taken off, and "left" is the least that is left in any
window, and in any account above.

   agentctl budget alice
   agentctl budget alice --per-day '$2' --approval '$0.50'
   agentctl budget alice --total none
   agentctl budget alice --ledger 50
   agentctl budget alice --follow`,
		Flags: append(flags,
			&cli.DurationFlag{Name: "approval-expires", DefaultText: "a day", Usage: "wait so long for that person, `DURATION` such as 24h"},
			&cli.StringFlag{Name: "parent", Usage: "spend also from the `ACCOUNT` above, or none"},
			&cli.IntFlag{Name: "ledger", Value: 5, Usage: "show the last `N` lines of the ledger"},
			&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "follow the ledger"},
			jsonFlag(),
		),
		OnUsageError: usageFailed,
		Before:       takes(0, 1, ""),
		BashComplete: completeAgents,
		Action:       attached(showBudget),
	}
}

func showBudget(s *session) error {
	for _, l := range limitFlags { // before the agent, which one without an amount swallows
		if s.IsSet(l.flag) && s.String(l.flag) != "none" {
			if _, err := s.amount(l.flag); err != nil {
				return err
			}
		}
	}
	dir, err := s.agent(s.Args().First())
	if err != nil {
		return err
	}
	dir = join(dir, "budget")
	switch changed, err := s.setLimits(join(dir, "limits")); {
	case err != nil || changed:
		return err
	case s.Bool("follow"):
		return s.printStream(join(dir, "ledger"), true, lastEvents)
	}
	var b books
	if err := s.readBooks(dir, s.Int("ledger"), &b); err != nil {
		return err
	}
	if s.Bool("json") {
		return s.printJSON(b)
	}
	return s.printBooks(b)
}

// setLimits does what the flags say, and reports whether they said anything.
func (s *session) setLimits(p string) (changed bool, err error) {
	wishes := map[string]json.RawMessage{}
	for _, l := range limitFlags {
		if !s.IsSet(l.flag) {
			continue
		}
		if wishes[l.field] = json.RawMessage("null"); s.String(l.flag) == "none" {
			continue
		}
		micros, err := s.amount(l.flag)
		if err != nil {
			return false, err
		}
		wishes[l.field] = raw(fsys.Line(micros))
	}
	if s.IsSet("approval-expires") {
		wishes["approval_expires_ms"] = raw(fsys.Line(s.Duration("approval-expires").Milliseconds()))
	}
	if parent := s.String("parent"); s.IsSet("parent") {
		if parent == "none" {
			parent = ""
		}
		wishes["parent"] = raw(fsys.Line(parent))
	}
	if len(wishes) == 0 {
		return false, nil
	}
	doc, err := s.readFile(p)
	if err != nil {
		return true, at(p, err)
	}
	limits := json.RawMessage(doc)
	for field, value := range wishes {
		if limits, err = setField(limits, field, value); err != nil {
			return true, at(p, err)
		}
	}
	if err := s.writeFile(p, append(limits, '\n')); err != nil {
		return true, at(p, err)
	}
	return true, s.printLimits(doc, limits, wishes)
}

// printLimits says what was set, and what it was before.
func (s *session) printLimits(before, after json.RawMessage, set map[string]json.RawMessage) error {
	if s.Bool("json") {
		return s.printJSON(after)
	}
	said := func(doc json.RawMessage, name string) string {
		value, err := getField(doc, name)
		if text := string(value); err != nil || text == "null" || text == `""` {
			return "none"
		}
		if ms, ok := strings.CutSuffix(name, "_ms"); ok && ms != "" {
			n, _ := strconv.ParseInt(string(value), 10, 64)
			return (time.Duration(n) * time.Millisecond).String()
		}
		_, text, _ := strings.Cut(fieldText(field{name, value}), "=")
		return text
	}
	t := newTable(s.App.Writer)
	for _, name := range slices.Sorted(maps.Keys(set)) {
		words := strings.ReplaceAll(strings.TrimSuffix(strings.TrimSuffix(name, "_microusd"), "_ms"), "_", " ")
		t.row(words, said(after, name), "was "+said(before, name))
	}
	return t.flush()
}

// amount is the money that a flag says.
func (s *session) amount(flag string) (int64, error) {
	text := s.String(flag)
	micros, err := money.Parse(text)
	if err != nil && !strings.ContainsAny(text, "0123456789") {
		return 0, usagef("%s", noAmount(flag))
	}
	if err != nil {
		return 0, usagef("--%s: %s", flag, fsys.ReasonOf(err))
	}
	return micros, nil
}

// books are an account's files.
type books struct {
	Limits json.RawMessage   `json:"limits"`
	Usage  json.RawMessage   `json:"usage"`
	Ledger []json.RawMessage `json:"ledger"` // its last lines
}

func (s *session) readBooks(dir string, lines int, b *books) error {
	for file, to := range map[string]*json.RawMessage{"limits": &b.Limits, "usage": &b.Usage} {
		text, err := s.readFile(join(dir, file))
		if err != nil {
			return at(join(dir, file), err)
		}
		*to = raw(text)
	}
	last, err := s.lastLines(join(dir, "ledger"), lines)
	b.Ledger = []json.RawMessage{}
	for _, line := range last {
		b.Ledger = append(b.Ledger, raw(line))
	}
	return err
}

// lastLines returns up to n of the last lines that the stream at p has now.
func (s *session) lastLines(p string, n int) ([][]byte, error) {
	node, err := s.walk(p)
	if err != nil {
		return nil, at(p, err)
	}
	info, err := node.Stat(s.Context.Context)
	if err != nil || info.Size == 0 || n <= 0 {
		return nil, at(p, err)
	}
	h, err := node.Open(s.Context.Context, fsys.Read)
	if err != nil {
		return nil, at(p, err)
	}
	off := max(0, info.Size-int64(n)*512)
	var b bytes.Buffer
	err = s.finish(h, copyUntil(s.Context.Context, &b, h, off, info.Size))
	text := b.Bytes()
	if off > 0 {
		_, text, _ = bytes.Cut(text, []byte("\n"))
	}
	var lines [][]byte
	for line := range bytes.Lines(text) {
		lines = append(lines, bytes.TrimSpace(line))
	}
	return lines[max(0, len(lines)-n):], at(p, err)
}

// A window is a time in which money is counted.
type window struct {
	Spent  int64  `json:"spent_microusd"`
	Limit  *int64 `json:"limit_microusd"`
	Left   *int64 `json:"left_microusd"`
	Resets string `json:"resets"`
}

func (s *session) printBooks(b books) error {
	var usage struct {
		Held             int64  `json:"held_microusd"`
		Holds            int    `json:"holds"`
		Left             *int64 `json:"left_microusd"`
		Tick, Day, Total window
		Parent           string
	}
	var limits struct {
		Threshold *int64 `json:"approval_threshold_microusd"`
		Expires   *int64 `json:"approval_expires_ms"`
	}
	if err := json.Unmarshal(b.Usage, &usage); err != nil {
		return at("usage", err)
	}
	if err := json.Unmarshal(b.Limits, &limits); err != nil {
		return at("limits", err)
	}
	t := newTable(s.App.Writer, "", "SPENT", "LIMIT", "LEFT", "TURNS")
	for _, w := range []struct {
		name string
		window
	}{{"tick", usage.Tick}, {"day", usage.Day}, {"total", usage.Total}} {
		t.row(w.name, money.Text(w.Spent), left(w.Limit, "none"), left(w.Left, "none"), orDash(w.Resets))
	}
	if err := t.flush(); err != nil {
		return err
	}
	out := s.App.Writer
	fmt.Fprintf(out, "\nheld      %s in %s\nleft      %s\n", money.Text(usage.Held), plain.Count(usage.Holds, "hold"), leftInWords(usage.Left))
	if limits.Threshold != nil {
		expires := 24 * time.Hour
		if limits.Expires != nil {
			expires = time.Duration(*limits.Expires) * time.Millisecond
		}
		fmt.Fprintf(out, "approval  above %s, within %v\n", money.Text(*limits.Threshold), expires)
	}
	if usage.Parent != "" {
		fmt.Fprintf(out, "account   %s, and left is the least in any\n", plain.Line(usage.Parent))
	}
	if len(b.Ledger) > 0 {
		fmt.Fprintln(out)
	}
	lines := s.eventLines()
	for _, line := range b.Ledger {
		lines.show(append(line, '\n'))
	}
	return nil
}
