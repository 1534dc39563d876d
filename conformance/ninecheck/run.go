package ninecheck

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path"
	"time"
)

// Options say what to check, and how far to go.
type Options struct {
	// Dial makes a connection to the server.
	Dial  func(context.Context) (net.Conn, error)
	Aname string // of Tattach
	Uname string
	UID   uint32 // n_uname of 9P2000.L

	Dialects []string // Plan9, Linux; none: both
	Only     string   // the checks whose name matches it, as path.Match does; empty: all

	// Write names a directory below the attach to make files in. Without it
	// nothing is changed.
	Write string
	// Stream names a file whose read blocks, and may be read.
	Stream string
	// Hostile allows frames that are no messages.
	Hostile bool
	// Limit is how long a reply may take; 0 is two seconds.
	Limit time.Duration
	// Quiet is how long nothing comes where nothing may come, or where a
	// request waits; 0 is 150 milliseconds.
	Quiet time.Duration
	// Revive, if set, starts the server again after a check that ended it, and
	// returns when it can be dialled. Without it the checks after are skipped.
	Revive func(context.Context) error
	// Each, if set, is told each result as soon as it is known.
	Each func(Result)
}

// A subject is a server in one dialect, with what is known about its tree.
type subject struct {
	Options
	dialect *dialect
	file    []string // the path of a file that is not empty
	length  uint64   // of it
	dir     []string // the path of a directory that is not the root
	speaks  bool     // the dialect
	gone    string   // why nothing more can be checked
}

// Run runs every check in each dialect, and returns what came out. The error
// is that there is no server to check, or that ctx ended.
func Run(ctx context.Context, o Options) ([]Result, error) {
	if o.Limit <= 0 {
		o.Limit = 2 * time.Second
	}
	if o.Quiet <= 0 {
		o.Quiet = 150 * time.Millisecond
	}
	if _, err := path.Match(o.Only, ""); err != nil {
		return nil, fmt.Errorf("%q matches nothing: %w", o.Only, err)
	}
	nc, err := o.Dial(ctx)
	if err != nil {
		return nil, err
	}
	nc.Close()
	var results []Result
	dialects := o.Dialects
	if len(dialects) == 0 {
		dialects = []string{Plan9, Linux}
	}
	for _, name := range dialects {
		d := map[string]*dialect{Plan9: plan9(), Linux: linux()}[name]
		if d == nil {
			return nil, fmt.Errorf("there is no dialect %q; there are %s and %s", name, Plan9, Linux)
		}
		s := &subject{Options: o, dialect: d}
		results = append(results, s.all(ctx)...)
		if err := ctx.Err(); err != nil {
			return results, err
		}
	}
	return results, nil
}

// all runs the checks in one dialect: whether it is answered at all, and if the
// server speaks it and lets us in, the others.
func (s *subject) all(ctx context.Context) (results []Result) {
	keep := func(r Result) {
		results = append(results, r)
		if s.Each != nil {
			s.Each(r)
		}
	}
	version := s.survive(ctx, &versionAnswered)
	if s.wanted(&versionAnswered) {
		keep(version)
	}
	why := s.gone
	if why == "" && s.try(ctx, &spoken).Verdict != Pass {
		why = "the server does not speak " + s.dialect.version
		if s.wanted(&versionRefused) {
			keep(s.survive(ctx, &versionRefused))
		}
	} else {
		s.speaks = why == ""
	}
	if why == "" {
		begin := Check{Name: "attach/begin", Says: "attach(5): Tattach makes fid the root of the tree; directories can be opened and read", run: s.explore}
		look := s.survive(ctx, &begin)
		if s.Only == "" || look.Verdict != Pass {
			keep(look)
		}
		if why = s.gone; look.Verdict != Pass && why == "" {
			why = "the server does not let us in"
		}
	}
	for _, c := range checks() {
		switch {
		case ctx.Err() != nil:
			return results
		case !s.wanted(&c):
		case why != "":
			keep(Result{Check: c.Name, Dialect: s.dialect.version, Says: c.Says, Verdict: Skip, Reason: why})
		default:
			keep(s.survive(ctx, &c))
			why = s.gone
		}
	}
	return results
}

// survive is try, and looks whether the server is there after.
func (s *subject) survive(ctx context.Context, c *Check) Result {
	r := s.try(ctx, c)
	if r.Verdict == Skip || s.there(ctx) {
		return r
	}
	r.Verdict = Fail
	r.Findings = append(r.Findings, Finding{What: "after this check the server takes no new clients: it has ended or is stuck"})
	if s.Revive == nil || s.Revive(ctx) != nil {
		s.gone = "the server is gone since " + c.Name
	}
	return r
}

// there reports whether a new client is served, or if the server does not speak
// the dialect, connected.
func (s *subject) there(ctx context.Context) bool {
	look := Check{run: func(t *trial) {
		if c := t.dial(); s.speaks {
			c.version(askedMsize)
			c.must("Tattach", c.attach(0)...)
			c.mustStat(0)
		}
	}}
	return s.try(ctx, &look).Verdict == Pass
}

func (s *subject) wanted(c *Check) bool {
	ok, _ := path.Match(s.Only, c.Name)
	return ok || s.Only == ""
}

// spoken tells whether the server answers Tversion with the dialect.
var spoken = Check{run: func(t *trial) { t.dial().version(askedMsize) }}

// Bounds of what explore looks at.
const (
	mostListed = 400
	mostDepth  = 4
	mostLength = 1 << 20
)

// explore looks for a file that is not empty and a directory, breadth first.
func (s *subject) explore(t *trial) {
	c := t.session()
	todo, seen := [][]string{nil}, 0
	for len(todo) > 0 && (s.file == nil || s.dir == nil) && seen < mostListed {
		at := todo[0]
		todo = todo[1:]
		entries, err := c.listPath(at)
		if err != nil && len(at) == 0 {
			t.fatalf("the root cannot be listed: %v", err)
		}
		for _, e := range entries {
			seen++
			p := append(append([]string(nil), at...), e.name)
			switch {
			case seen > mostListed, e.name == ".", e.name == "..":
			case e.qid.Type&isDir != 0:
				if s.dir == nil {
					s.dir = p
				}
				if len(p) < mostDepth {
					todo = append(todo, p)
				}
			case e.qid.Type == 0 && s.file == nil && path.Join(p...) != path.Clean(s.Stream):
				s.consider(c, p)
			}
		}
	}
	t.frames = t.frames[:0]
}

// consider takes the file at p if it is ordinary and holds something that can
// be read.
func (s *subject) consider(c *conn, p []string) {
	fid, err := c.reach(p)
	if err != nil {
		return
	}
	defer c.ask("Tclunk", fid)
	st, err := c.stat(fid)
	if err != nil || !st.regular || st.length == 0 || st.length > mostLength {
		return
	}
	if c.open(fid, modeRead).isError() {
		return
	}
	tag := c.send("Tread", fid, 0, 64)
	if m := c.await(tag); !m.isError() && len(m.data("data")) > 0 {
		s.file, s.length = p, st.length
	}
}

// errRefused says that the server answered with an error.
var errRefused = errors.New("refused")

func refusal(m *message) error { return fmt.Errorf("%w: %v", errRefused, m) }

// listPath returns the directory at p.
func (c *conn) listPath(p []string) ([]entry, error) {
	fid, err := c.reach(p)
	if err != nil {
		return nil, err
	}
	defer c.ask("Tclunk", fid)
	if m := c.open(fid, modeRead); m.isError() {
		return nil, refusal(m)
	}
	return c.listAll(fid, askedMsize-24)
}

// reach walks from the root to p, in as many steps as it needs.
func (c *conn) reach(p []string) (fid uint32, err error) {
	fid = c.newFid()
	from := uint32(0)
	for first := true; first || len(p) > 0; first = false {
		part := p[:min(len(p), maxNames)]
		p = p[len(part):]
		m := c.ask("Twalk", from, fid, append([]string{}, part...))
		if m.isError() {
			return 0, refusal(m)
		}
		if len(m.qids()) < len(part) {
			return 0, errRefused
		}
		from = fid
	}
	return fid, nil
}
