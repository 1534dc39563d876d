package main

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"agent9/fsys"
)

// A board is what top knows. Events say what has changed, and only that is
// read again, in the background: so an agent that rests costs nothing.
type board struct {
	*session
	own     string // the agent, if the root is its own tree
	agents  map[string]*agentRow
	work    map[string]*work // by path
	dirty   map[string]bool  // agents whose status is to be read
	touched map[string]bool  // work, by path
	reading bool
	events  int // since the last count
	rate    int // events in the last second
}

// An agentRow is an agent on the board.
type agentRow struct {
	statusReport
	last  time.Time // of its events
	event string
}

func (a *agentRow) busy() int {
	if a.Queues.Jobs > 0 || a.Ticks.Running != "" {
		return 1
	}
	return 0
}

// work is a job of a model, a session of a sandbox, or a tick.
type work struct {
	Agent  string `json:"agent"`
	Kind   string `json:"kind"` // job, session or tick
	Number string `json:"number"`
	State  string `json:"state"`
	What   string `json:"what"` // is asked, or run
	Since  string `json:"since"`
	Ended  string `json:"ended,omitempty"`
	Held   int64  `json:"held_microusd"`
	Cost   int64  `json:"cost_microusd"`

	path string
	gone time.Time // when it is no longer shown; zero: it has not ended
}

func newBoard(s *session) *board {
	return &board{
		session: s, agents: map[string]*agentRow{}, work: map[string]*work{},
		dirty: map[string]bool{}, touched: map[string]bool{},
	}
}

// The places of work in an agent's tree, and its kinds.
const (
	jobsDir     = "compute/jobs"
	sandboxDir  = "containers/sessions"
	kindJob     = "job"
	kindSession = "session"
	kindTick    = "tick"
)

// begin finds out who there is, and marks them all as to be read.
func (b *board) begin() error {
	dirs, err := b.allAgents()
	if err != nil {
		return err
	}
	there := map[string]bool{}
	for _, dir := range dirs {
		name := path.Base(dir)
		if dir == "" {
			r, err := b.report("")
			if err != nil {
				return err
			}
			name, b.own = r.Name, r.Name
		}
		there[name], b.dirty[name] = true, true
	}
	for name := range b.agents {
		if !there[name] {
			b.remove(name)
		}
	}
	return nil
}

// load reads everything once.
func (b *board) load() error {
	if err := b.begin(); err != nil {
		return err
	}
	for len(b.dirty) > 0 {
		found := b.read(b.take())
		if found.err != nil {
			return found.err
		}
		b.put(found)
	}
	return b.Context.Err()
}

// dir is the tree of the agent called name.
func (b *board) dir(name string) string {
	if b.own != "" {
		return ""
	}
	return "agents/" + name
}

// happened notes an event.
func (b *board) happened(line []byte) {
	var e struct {
		Time    time.Time
		Event   string
		Agent   string
		Job     int64
		Session int64
	}
	if json.Unmarshal(line, &e) != nil {
		return
	}
	if b.own != "" {
		e.Agent = b.own
	}
	b.events++
	switch {
	case e.Agent == "":
		return
	case e.Event == "agent.removed":
		b.remove(e.Agent)
		return
	case strings.HasPrefix(e.Event, "compute.") && e.Job > 0:
		b.touched[join(b.dir(e.Agent), fmt.Sprintf("%s/%d", jobsDir, e.Job))] = true
	case strings.HasPrefix(e.Event, "containers.") && e.Session > 0:
		b.touched[join(b.dir(e.Agent), fmt.Sprintf("%s/%d", sandboxDir, e.Session))] = true
	}
	b.dirty[e.Agent] = true
	if a := b.agents[e.Agent]; a != nil {
		a.last, a.event = e.Time, e.Event
	}
}

func (b *board) remove(name string) {
	delete(b.agents, name)
	delete(b.dirty, name)
	for p, w := range b.work {
		if w.Agent == name {
			delete(b.work, p)
		}
	}
}

// A wish is what is to be read, and found what was.
type wish struct {
	agents []string
	scan   map[string]bool // those whose work is not known yet
	work   []string
}

type found struct {
	reports []statusReport
	absent  []string
	work    []*work
	err     error
}

// readAtOnce is how many agents are read before the board is shown again.
const readAtOnce = 256

// take returns what is to be read next.
func (b *board) take() wish {
	w := wish{scan: map[string]bool{}}
	for name := range b.dirty {
		if len(w.agents) == readAtOnce {
			break
		}
		w.agents = append(w.agents, name)
		w.scan[name] = b.agents[name] == nil
		delete(b.dirty, name)
	}
	for p := range b.touched {
		if len(w.work) == readAtOnce {
			break
		}
		w.work = append(w.work, p)
		delete(b.touched, p)
	}
	return w
}

// read reads what w wants. It changes nothing of b.
func (b *board) read(w wish) found {
	f := found{}
	reports, errs := make([]statusReport, len(w.agents)), make([]error, len(w.agents))
	scanned := make([][]*work, len(w.agents))
	parallel(len(w.agents), func(i int) {
		name := w.agents[i]
		if reports[i], errs[i] = b.report(b.dir(name)); errs[i] == nil && w.scan[name] && reports[i].Queues.Jobs > 0 {
			scanned[i] = b.scan(name, reports[i].Queues.Jobs)
		}
	})
	for i, err := range errs {
		switch {
		case err == nil:
			f.reports = append(f.reports, reports[i])
			f.work = append(f.work, scanned[i]...)
		case fsys.CodeOf(err) == fsys.NotExist:
			f.absent = append(f.absent, w.agents[i])
		default:
			f.err = err
		}
	}
	works := make([]*work, len(w.work))
	parallel(len(w.work), func(i int) { works[i] = b.readWork(w.work[i]) })
	for _, one := range works {
		if one != nil {
			f.work = append(f.work, one)
		}
	}
	return f
}

// scanned is how many of the latest jobs of an agent are looked at for those
// that were running when top began.
const scanned = 64

// scan looks for n works of the agent that have not ended.
func (b *board) scan(name string, n int) (list []*work) {
	for _, kind := range []string{jobsDir, sandboxDir} {
		dir := join(b.dir(name), kind)
		names, _ := b.names(dir) // a tree that lacks them, or hides them, has none to show
		numbers := slices.DeleteFunc(names, func(s string) bool { return !isNumber(s) })
		slices.SortFunc(numbers, func(x, y string) int {
			a, _ := strconv.Atoi(x)
			b, _ := strconv.Atoi(y)
			return b - a
		})
		for _, number := range numbers[:min(len(numbers), scanned)] {
			if len(list) >= n {
				return list
			}
			if w := b.readWork(join(dir, number)); w != nil && w.gone.IsZero() {
				list = append(list, w)
			}
		}
	}
	return list
}

// shownFor is how long work is shown after its end.
const shownFor = 5 * time.Second

// readWork reads the status of the work at p; nil if there is none any more.
func (b *board) readWork(p string) *work {
	var status struct {
		State, Provider, Model, Image, Created, Ended string
		Held                                          int64 `json:"held_microusd"`
		Cost                                          int64 `json:"cost_microusd"`
	}
	if b.readJSON(join(p, "status"), &status, nil) != nil {
		return nil
	}
	w := &work{
		Agent: b.own, Kind: kindSession, Number: path.Base(p), State: status.State, Since: status.Created,
		What: strings.Trim(status.Provider+" "+status.Model+status.Image, " "), Ended: status.Ended,
		Held: status.Held, Cost: status.Cost, path: p,
	}
	if b.own == "" {
		w.Agent = strings.Split(p, "/")[1]
	}
	if strings.Contains(p, jobsDir) {
		w.Kind = kindJob
	}
	if w.Ended != "" {
		w.gone = time.Now().Add(shownFor)
	}
	return w
}

// put takes over what was read.
func (b *board) put(f found) {
	for _, name := range f.absent {
		b.remove(name)
	}
	for _, r := range f.reports {
		a := b.agents[r.Name]
		if a == nil {
			a = &agentRow{}
			b.agents[r.Name] = a
		}
		a.statusReport = r
		b.putTick(r)
	}
	for _, w := range f.work {
		if b.agents[w.Agent] != nil {
			b.work[w.path] = w
		}
	}
}

// putTick shows the agent's tick as work while it runs.
func (b *board) putTick(r statusReport) {
	p := r.Name + "/" + kindTick
	if r.Ticks.Running == "" {
		delete(b.work, p)
		return
	}
	if old := b.work[p]; old != nil && old.Number == r.Ticks.Running {
		return
	}
	b.work[p] = &work{
		Agent: r.Name, Kind: kindTick, Number: r.Ticks.Running, State: "running", Since: fsys.Stamp(time.Now()), path: p,
	}
}

// sweep forgets the work that ended a while ago.
func (b *board) sweep(now time.Time) {
	for p, w := range b.work {
		if !w.gone.IsZero() && now.After(w.gone) {
			delete(b.work, p)
		}
	}
}
