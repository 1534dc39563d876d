package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"agent9/cmd/internal/money"
	"agent9/cmd/internal/plain"
)

// A topView is the board on a terminal. Only lines that differ from what is there
// are sent.
type topView struct {
	t          *terminal
	rows, cols int
	colour     bool
	order      int
	top        int      // the first agent that is shown
	shown      []string // the lines on the terminal
	stale      bool     // the board may look different
	complete   bool     // every agent was read once
}

func newTopView(t *terminal) *topView {
	v := &topView{t: t, colour: os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
	v.resize()
	return v
}

// resize takes over the terminal's size.
func (v *topView) resize() {
	v.rows, v.cols = v.t.size()
	v.shown, v.stale = nil, true
}

// key does what a key is for, and reports whether it is to leave.
func (v *topView) key(k key) (quit bool) {
	page := max(1, v.rows/2)
	switch k {
	case keyQuit:
		return true
	case keySort:
		v.order, v.top = (v.order+1)%nOrders, 0
	case keyUp:
		v.top--
	case keyDown:
		v.top++
	case keyPageUp:
		v.top -= page
	case keyPageDown:
		v.top += page
	case keyHome:
		v.top = 0
	case keyEnd:
		v.top = 1 << 30
	}
	v.stale = true
	return false
}

// draw brings the terminal up to date.
func (v *topView) draw(b *board) {
	if !v.stale {
		return
	}
	v.stale = false
	lines := v.lines(b)
	var out strings.Builder
	if v.shown == nil {
		out.WriteString("\x1b[2J")
	}
	for i := range max(len(lines), len(v.shown)) {
		switch {
		case i >= len(lines):
			out.WriteString(moveTo(i) + "\x1b[K")
		case i >= len(v.shown) || v.shown[i] != lines[i]:
			out.WriteString(moveTo(i) + lines[i] + "\x1b[K")
		}
	}
	v.shown = lines
	if out.Len() > 0 {
		io.WriteString(plain.Bare(b.App.Writer), out.String())
	}
}

// lines are what the terminal shall show.
func (v *topView) lines(b *board) []string {
	works, agents := b.works(), b.sorted(v.order)
	var lines []string
	add := func(style, text string) { lines = append(lines, v.styled(style, short(plain.Line(text), v.cols))) }
	for _, text := range summary(b) {
		add("", text)
	}
	now := time.Now()
	if room := v.rows/3 - 1; len(works) > 0 && room > 1 {
		texts := workLines(works[:min(len(works), room)], now)
		add(reverse, pad(texts[0], v.cols))
		for i, text := range texts[1:] {
			add(workStyle(works[i]), text)
		}
		add("", "")
	}
	texts := agentLines(agents)
	add(reverse, pad(texts[0], v.cols))
	room := max(0, v.rows-len(lines)-1)
	v.top = max(0, min(v.top, len(agents)-room))
	for i := v.top; i < min(len(agents), v.top+room); i++ {
		add(agentStyle(agents[i]), texts[i+1])
	}
	lines = lines[:min(len(lines), max(0, v.rows-1))]
	for len(lines) < v.rows-1 {
		lines = append(lines, "")
	}
	add(dim, fmt.Sprintf("q quit  s sort: %s  arrows move  %d-%d of %d", orderNames[v.order],
		min(v.top+1, len(agents)), min(len(agents), v.top+room), len(agents)))
	return lines
}

// Styles of text, by the numbers of ECMA-48.
const (
	dim     = "2"
	reverse = "7"
	red     = "31"
	green   = "32"
	yellow  = "33"
)

func (v *topView) styled(style, text string) string {
	if style == "" || !v.colour {
		return text
	}
	return "\x1b[" + style + "m" + text + "\x1b[0m"
}

func agentStyle(a *agentRow) string {
	switch {
	case a.State == "failed":
		return red
	case a.Queues.Approvals > 0:
		return yellow
	case a.busy() > 0:
		return green
	case a.State == "stopped":
		return dim
	}
	return ""
}

func workStyle(w *work) string {
	switch {
	case w.State == "failed":
		return red
	case w.State == "awaiting-approval":
		return yellow
	case !w.gone.IsZero():
		return dim
	}
	return ""
}

// summary is the head of the board.
func summary(b *board) []string {
	t := b.totals()
	states := []string{}
	for _, state := range slices.Sorted(maps.Keys(t.States)) {
		states = append(states, fmt.Sprintf("%d %s", t.States[state], state))
	}
	first := fmt.Sprintf("%s: %s", plain.Count(t.Agents, "agent"), strings.Join(states, ", "))
	if n := len(b.dirty); t.Agents == 0 && n > 0 {
		first = plain.Count(n, "agent")
	}
	first += fmt.Sprintf("   jobs and sandboxes %d   ticks %d   messages %d", t.Jobs, t.Ticks, t.Inbox)
	if t.Approvals > 0 {
		first += fmt.Sprintf("   waiting for agreement %d", t.Approvals)
	}
	return []string{
		first,
		fmt.Sprintf("spent today %s   in all %s   held %s   events %d/s", money.Text(t.SpentDay), money.Text(t.Spent), money.Text(t.Held), b.rate),
		"",
	}
}

// columns aligns rows of cells.
func columns(rows [][]string) []string {
	width := map[int]int{}
	for _, row := range rows {
		for i, cell := range row {
			row[i] = plain.Line(cell)
			width[i] = max(width[i], len([]rune(cell)))
		}
	}
	lines := make([]string, len(rows))
	for n, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			line.WriteString(cell)
			if i < len(row)-1 {
				line.WriteString(strings.Repeat(" ", width[i]+2-len([]rune(cell))))
			}
		}
		lines[n] = strings.TrimRight(line.String(), " ")
	}
	return lines
}

// maxCell is how wide a name is shown.
const maxCell = 32

func workLines(list []*work, now time.Time) []string {
	rows := [][]string{{"WORK", "AGENT", "STATE", "FOR", "HELD", "COST", "WHAT"}}
	for _, w := range list {
		rows = append(rows, []string{
			w.Kind + " " + w.Number, short(w.Agent, maxCell), w.State, lasted(w, now), money.Text(w.Held), money.Text(w.Cost), short(w.What, 2*maxCell),
		})
	}
	return columns(rows)
}

// lasted is how long w has gone on.
func lasted(w *work, now time.Time) string {
	since, err := time.Parse(time.RFC3339, w.Since)
	if err != nil {
		return "-"
	}
	if ended, err := time.Parse(time.RFC3339, w.Ended); err == nil {
		now = ended
	}
	return max(0, now.Sub(since)).Round(time.Second).String()
}

func agentLines(list []*agentRow) []string {
	rows := [][]string{{"AGENT", "STATE", "INBOX", "WORK", "ASKS", "TICKS", "TODAY", "SPENT", "LEFT", "LAST EVENT"}}
	for _, a := range list {
		rows = append(rows, []string{
			short(a.Name, maxCell), a.State, fmt.Sprint(a.Queues.Inbox), fmt.Sprint(a.Queues.Jobs), fmt.Sprint(a.Queues.Approvals),
			fmt.Sprint(a.Ticks.Count), money.Text(a.Budget.SpentDay), money.Text(a.Budget.Spent), left(a.Budget.Left, "-"), lastEvent(a),
		})
	}
	return columns(rows)
}

func lastEvent(a *agentRow) string {
	if a.event == "" {
		return ""
	}
	return a.last.Local().Format("15:04:05") + " " + a.event
}

func pad(text string, n int) string {
	return text + strings.Repeat(" ", max(0, n-len([]rune(text))))
}

// print writes the board once, for people.
func (b *board) print() error {
	lines := summary(b)
	lines[1] = strings.TrimSuffix(lines[1], fmt.Sprintf("   events %d/s", b.rate))
	if works := b.works(); len(works) > 0 {
		lines = append(append(lines, workLines(works, time.Now())...), "")
	}
	lines = append(lines, agentLines(b.sorted(byName))...)
	_, err := io.WriteString(b.App.Writer, strings.Join(lines, "\n")+"\n")
	return err
}
