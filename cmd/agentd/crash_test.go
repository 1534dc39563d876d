package main

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"agent9/conformance/daemon"
	"agent9/fsys"
)

// The variables of TestCrash: how often it kills the daemon, and what its
// random numbers begin with, to have the same ones again.
const (
	killsVar = "AGENT9_KILLS"
	seedVar  = "AGENT9_SEED"
)

// A promise is something that holds of an agent whenever the daemon is killed.
type promise struct {
	name   string // also of its agent
	config string // a deed of programs, or {…}; empty: there is no program
	more   string // further fields of config
	// acts is how often act is called in one life of the daemon at most; 0
	// means 8.
	acts int
	// begins makes ready what else than the agent act needs; nil: nothing.
	begins func(p *promised, r *daemon.Tree)
	// act does the n-th thing to the agent. Nil says that it was
	// acknowledged.
	act func(p *promised, r *daemon.Tree, n int) error
	// holds checks what must be after a kill, when nothing is done to the
	// agent but by its own ticks.
	holds func(p *promised, r *daemon.Tree)
}

// promised is a promise that is being kept.
type promised struct {
	*testing.T
	promise
	d     *daemon.Daemon
	rng   *rand.Rand
	tries int   // how many times act was called
	kept  []int // what of it was acknowledged
	left  int   // how many more calls there are in this life
}

func (p *promised) at(file string) string { return "agents/" + p.name + "/" + file }

// counts reports whether the n-th thing was begun, and kept whether it was
// acknowledged.
func (p *promised) counts(n int) (begun, kept bool) {
	_, kept = slices.BinarySearch(p.kept, n)
	return n >= 0 && n < p.tries, kept
}

// numbers returns those after prefix in the words of text.
func (p *promised) numbers(text, prefix string) (list []int) {
	for word := range strings.FieldsSeq(text) {
		if digits, ok := strings.CutPrefix(word, prefix); ok {
			if n, err := strconv.Atoi(digits); err == nil {
				list = append(list, n)
			}
		}
	}
	return list
}

// each checks that list has all that was acknowledged, nothing twice, and
// nothing that was never begun.
func (p *promised) each(what string, list []int) {
	p.Helper()
	seen := map[int]int{}
	for _, n := range list {
		seen[n]++
		if begun, _ := p.counts(n); seen[n] > 1 || !begun {
			p.Errorf("%s has %d, which was begun: %v, %d times", what, n, begun, seen[n])
		}
	}
	for _, n := range p.kept {
		if seen[n] == 0 {
			p.Errorf("%s lacks %d, which was acknowledged", what, n)
		}
	}
}

// noted returns what the agent's program noted: nothing, if it had no reason to.
func (p *promised) noted(r *daemon.Tree) string {
	p.Helper()
	text, err := r.TryRead(p.at("state/log"))
	if err != nil && (fsys.CodeOf(err) != fsys.NotExist || len(p.kept) > 0) {
		p.Error(err)
	}
	return text
}

// rests waits until the agent has nothing to do.
func (p *promised) rests(r *daemon.Tree) {
	p.Helper()
	status := r.Until(p.name, "status", `"state":"hibernating"`)
	daemon.Has(p.T, "the status of who has nothing to do", status, `"inbox":0,`)
}

// fromEnv is the number in a variable, or n.
func fromEnv(variable string, n uint64) uint64 {
	if v, err := strconv.ParseUint(os.Getenv(variable), 10, 64); err == nil {
		return v
	}
	return n
}

// What is promised holds whenever the daemon is killed: under load, a moment
// after it acknowledged something, and while it starts. Nothing is left behind.
func TestCrash(t *testing.T) {
	kills, seed := int(fromEnv(killsVar, 20)), fromEnv(seedVar, uint64(time.Now().UnixNano()))
	t.Logf("%s=%d", seedVar, seed)
	t.Setenv("OPENAI_API_KEY", promisedKey)
	c := newCrash(t, seed)
	for kill := 1; kill <= kills && !t.Failed(); kill++ {
		some := c.some()
		c.actUntilKilled(some, 1+c.rng.IntN(12*len(some)))
		if c.rng.IntN(3) == 0 {
			startUntil(c.d, time.Duration(c.rng.IntN(400))*time.Millisecond)
		}
		c.d.Start()
		c.check(some, kill)
	}
	if !t.Failed() {
		c.check(c.all, kills+1)
		c.ends()
	}
	if t.Failed() {
		t.Logf("to see it again: %s=%d", seedVar, seed)
	}
}

// A crash is a daemon that is killed again and again, and what it promised.
type crash struct {
	*testing.T
	d     *daemon.Daemon
	rng   *rand.Rand
	all   []*promised
	drawn []*promised // that are still to act before any acts again
}

// newCrash makes an agent for every promise.
func newCrash(t *testing.T, seed uint64) *crash {
	random := func(what string) *rand.Rand {
		h := fnv.New64a()
		h.Write([]byte(what))
		return rand.New(rand.NewPCG(seed, h.Sum64()))
	}
	c := &crash{T: t, rng: random("")}
	promises := slices.Concat(lives, keeps())
	money, args := newShop(t)
	promises = append(promises, money...)
	boxes, more := sandboxPromises(t)
	promises = append(promises, boxes...)
	daemon.Agentctl(t) // before TMPDIR is the daemon's
	c.d = daemon.New(t, append(args, more...)...)
	if err := os.Mkdir(temp(c.d), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", temp(c.d))
	c.d.Start()
	r := c.d.Root()
	for _, one := range promises {
		p := &promised{T: t, promise: one, d: c.d, rng: random(one.name)}
		if p.acts == 0 {
			p.acts = 8
		}
		c.all = append(c.all, p)
		config := "{" + p.more + "}"
		switch {
		case strings.HasPrefix(p.config, "{"):
			config = `{"program":` + p.config + p.more + `}`
		case p.config != "":
			config = c.d.Config(p.config, p.more)
		}
		r.Agent(p.name, config)
		if p.begins != nil {
			p.begins(p, r)
		}
	}
	return c
}

// some returns those that act in this life of the daemon: a few, so that much
// is tried in short time, and each in its turn.
func (c *crash) some() (some []*promised) {
	for range 9 {
		if len(c.drawn) == 0 {
			for _, i := range c.rng.Perm(len(c.all)) {
				c.drawn = append(c.drawn, c.all[i])
			}
		}
		if next := c.drawn[0]; !slices.Contains(some, next) {
			some = append(some, next)
		}
		c.drawn = c.drawn[1:]
	}
	return some
}

// actUntilKilled does things to agents at once, until so many have been
// acknowledged; a moment later the daemon is killed.
func (c *crash) actUntilKilled(some []*promised, many int) {
	var mu sync.Mutex
	var acts sync.WaitGroup
	moment := time.Duration(c.rng.IntN(20_000)) * time.Microsecond
	roots := make([]*daemon.Tree, len(some)) // all of them before anything can end the daemon
	for i := range some {
		roots[i] = c.d.Root()
	}
	for i, p := range some {
		p.T, p.left = c.T, p.acts
		r := roots[i]
		acts.Go(func() {
			for ; p.left > 0; p.left-- {
				n := p.tries
				p.tries++
				err := p.act(p, r, n)
				mu.Lock()
				dead := many <= 0
				if err == nil {
					p.kept = append(p.kept, n)
					if many--; many == 0 {
						time.AfterFunc(moment, func() { c.d.Cmd.Process.Kill() })
					}
				}
				mu.Unlock()
				if err != nil && fsys.CodeOf(err) != fsys.Busy {
					if !dead {
						c.Errorf("%s: %v", p.name, err)
					}
					return
				}
			}
		})
	}
	acts.Wait()
	c.d.Kill() // if there was less to do
}

// check checks what some promised, and that nothing is left behind.
func (c *crash) check(some []*promised, kill int) {
	r := c.d.Root()
	for _, p := range some {
		c.Run(fmt.Sprintf("%s/%d", p.name, kill), func(t *testing.T) {
			p.T = t
			p.holds(p, r.As(t))
		})
	}
	c.Run(fmt.Sprintf("NothingLeft/%d", kill), func(t *testing.T) { nothingLeft(c.d, t) })
}

// ends ends the daemon in order, when there is nothing to do.
func (c *crash) ends() {
	c.d.Signal(syscall.SIGTERM)
	c.d.Ends(daemon.Bound)
	c.d.Start()
	c.check(c.all[:1], 0)
}

// startUntil starts the daemon and kills it after a time, whatever it has done
// by then.
func startUntil(d *daemon.Daemon, after time.Duration) {
	d.T.Helper()
	cmd := d.Command()
	if err := cmd.Start(); err != nil {
		d.T.Fatal(err)
	}
	time.AfterFunc(after, func() { cmd.Process.Kill() })
	cmd.Wait()
	if status := cmd.ProcessState.ExitCode(); status >= 0 {
		d.T.Errorf("agentd, which was to be killed, ended with status %d", status)
	}
}

// endless are promises some of whose work only ends with the daemon.
var endless = []string{"MoneyAddsUp", "CommandsEnd", "BoxesEnd"}

// After load, when nothing is left to do, a daemon has about as many goroutines
// and open files as after the load before: it can go on like this for ever.
func TestLoadComesDown(t *testing.T) {
	if os.Getenv(killsVar) == "" {
		t.Skip("takes a minute, and is part of make soak")
	}
	seed := fromEnv(seedVar, uint64(time.Now().UnixNano()))
	t.Logf("%s=%d", seedVar, seed)
	c := newCrash(t, seed)
	c.all = slices.DeleteFunc(c.all, func(p *promised) bool { return slices.Contains(endless, p.name) })
	watch := c.d.Root()
	goroutines, files := 0, 0
	for round := range 4 {
		for _, p := range c.all {
			r := c.d.Root()
			for range 6 {
				n := p.tries
				p.tries++
				if err := p.act(p, r, n); err == nil {
					p.kept = append(p.kept, n)
				} else if fsys.CodeOf(err) != fsys.Busy {
					t.Errorf("%s: %v", p.name, err)
				}
			}
			r.Client.Close()
		}
		for _, p := range c.all {
			if p.config != "" {
				p.rests(watch)
			}
		}
		if round == 0 {
			goroutines, files = watch.Metric("go_goroutines"), watch.Metric("process_open_fds")
			continue
		}
		var now [2]int
		defer func() { t.Logf("round %d: %d goroutines, %d open files", round, now[0], now[1]) }()
		daemon.Eventually(t, fmt.Sprintf("about %d goroutines and %d open files", goroutines, files), func() bool {
			now = [2]int{watch.Metric("go_goroutines"), watch.Metric("process_open_fds")}
			return now[0] <= goroutines+goroutines/4 && now[1] <= files+files/4
		})
	}
}
