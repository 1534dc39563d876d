package main

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"agent9/cmd/internal/plain"

	"github.com/urfave/cli/v2"
)

func topCommand() *cli.Command {
	return &cli.Command{
		Name:  "top",
		Usage: "watch agents, their work and their spending, live",
		Description: `Keys: q quits; s sorts by activity, name or what was spent today; the arrow
keys, j, k, PgUp and PgDn move through the agents. With --once, or where there is
no terminal, it is printed once. Without colours if NO_COLOR is set.

   agentctl top
   agentctl top --once
   agentctl top --json | jq .totals.spent_day_microusd`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "once", Usage: "print it once"},
			&cli.BoolFlag{Name: "json", Usage: "print it once, as a JSON object"},
		},
		OnUsageError: usageFailed,
		Before:       takes(0, 0, ""),
		Action:       attached(top),
	}
}

func top(s *session) error {
	b := newBoard(s)
	in, out := openTerminal(s.App.Reader), plain.Terminal(s.App.Writer) != nil
	if !s.Bool("once") && !s.Bool("json") && in != nil && out {
		return b.live(in)
	}
	if err := b.load(); err != nil {
		return err
	}
	if s.Bool("json") {
		return s.printJSON(b.snapshot())
	}
	return b.print()
}

// A snapshot is the board for programs.
type snapshot struct {
	Time   string         `json:"time"`
	Totals totals         `json:"totals"`
	Work   []work         `json:"work"`
	Agents []statusReport `json:"agents"`
}

// totals are the sums over all agents.
type totals struct {
	Agents    int            `json:"agents"`
	States    map[string]int `json:"states"`
	Inbox     int            `json:"inbox"`
	Jobs      int            `json:"jobs"`
	Approvals int            `json:"approvals"`
	Ticks     int            `json:"ticks_running"`
	Held      int64          `json:"held_microusd"`
	SpentDay  int64          `json:"spent_day_microusd"`
	Spent     int64          `json:"spent_total_microusd"`
}

func (b *board) totals() totals {
	t := totals{States: map[string]int{}}
	for _, a := range b.agents {
		t.Agents++
		t.States[a.State]++
		t.Inbox += a.Queues.Inbox
		t.Jobs += a.Queues.Jobs
		t.Approvals += a.Queues.Approvals
		if a.Ticks.Running != "" {
			t.Ticks++
		}
		t.Held += a.Budget.Held
		t.SpentDay += a.Budget.SpentDay
		t.Spent += a.Budget.Spent
	}
	return t
}

func (b *board) snapshot() snapshot {
	s := snapshot{Time: time.Now().UTC().Format(time.RFC3339), Totals: b.totals(), Work: []work{}, Agents: []statusReport{}}
	for _, w := range b.works() {
		s.Work = append(s.Work, *w)
	}
	for _, a := range b.sorted(byName) {
		s.Agents = append(s.Agents, a.statusReport)
	}
	return s
}

// The orders in which agents are shown.
const (
	byActivity = iota
	byName
	bySpending
	nOrders
)

var orderNames = [nOrders]string{"activity", "name", "spent today"}

// sorted returns the agents in order.
func (b *board) sorted(order int) []*agentRow {
	list := make([]*agentRow, 0, len(b.agents))
	for _, a := range b.agents {
		list = append(list, a)
	}
	slices.SortFunc(list, func(x, y *agentRow) int {
		byNames := strings.Compare(x.Name, y.Name)
		switch order {
		case byActivity:
			return cmp.Or(cmp.Compare(y.busy(), x.busy()), y.last.Compare(x.last), byNames)
		case bySpending:
			return cmp.Or(cmp.Compare(y.Budget.SpentDay, x.Budget.SpentDay), byNames)
		}
		return byNames
	})
	return list
}

// works returns the work that is shown, the latest first.
func (b *board) works() []*work {
	list := make([]*work, 0, len(b.work))
	for _, w := range b.work {
		list = append(list, w)
	}
	slices.SortFunc(list, func(x, y *work) int {
		return cmp.Or(strings.Compare(y.Since, x.Since), strings.Compare(x.path, y.path))
	})
	return list
}
