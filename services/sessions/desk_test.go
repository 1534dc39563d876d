package sessions_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"agent9/fsys"
	"agent9/namespace/budget"
	"agent9/services/internal/wall"
	"agent9/services/sessions"
	"agent9/store"
	"agent9/store/mem"
)

// A desk is a service whose prompts are scripts, steps separated by ';':
//
//	say TEXT     the answer grows by TEXT
//	much N       the answer grows by N bytes
//	wait NAME    until the test opens NAME, or the prompt is cancelled
//	deaf NAME    wait, whatever happens
//	cost N       in micro-dollars
//	fail REASON  the answer fails
//	panic        the program crashes
//	again        what was given by an earlier run is set aside; without it the
//	             answer goes on
type desk struct {
	*testing.T
	db     store.Updater
	svc    *sessions.Service
	stop   context.CancelFunc
	config sessions.Config
	clock  atomic.Int64 // nanoseconds that passed besides those that did
	wall   wall.Clock   // how the clock was set
	holds  atomic.Bool  // no prompt is begun

	mu     sync.Mutex
	gates  map[string]chan struct{}
	events []string
	begun  []string // texts, in the order in which they were begun
	atOnce int
	most   int
	said   map[string][]sessions.Line // what the prompt of a text saw
}

func newDesk(t *testing.T, config sessions.Config) *desk { return newDeskOn(t, mem.New(), config) }

func newDeskOn(t *testing.T, db store.Updater, config sessions.Config) *desk {
	d := &desk{T: t, db: db, config: config, gates: map[string]chan struct{}{}, said: map[string][]sessions.Line{}}
	d.open()
	return d
}

// open opens the service on what the database has.
func (d *desk) open() {
	d.Helper()
	life, stop := context.WithCancel(context.WithoutCancel(d.Context()))
	svc, err := sessions.Open(life, sessions.Options{
		Store: store.Sub(d.db, "sessions/"), Name: "alice", Run: d.run, Now: d.now, Note: d.note,
		Config: func() sessions.Config { return d.config },
		Working: func() error {
			if d.holds.Load() {
				return fsys.E(fsys.Busy, "stopped")
			}
			return nil
		},
	})
	if err == nil {
		err = svc.Start(life)
	}
	if err != nil {
		d.Fatal(err)
	}
	d.svc, d.stop = svc, stop
	d.Cleanup(d.close)
}

// close ends the service as the end of a daemon does.
func (d *desk) close() {
	d.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(d.Context()), limit)
	defer cancel()
	if err := d.svc.Close(ctx); err != nil {
		d.Error(err)
	}
	d.stop()
}

func (d *desk) now() time.Time { return d.wall.Now().Add(time.Duration(d.clock.Load())) }

func (d *desk) pass(t time.Duration) { d.clock.Add(int64(t)) }

func (d *desk) note(tx store.Store, event string, detail any) error {
	line := event + " " + strings.TrimSpace(string(fsys.Line(detail)))
	store.After(tx, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.events = append(d.events, line)
	})
	return nil
}

func (d *desk) gate(name string) chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.gates[name] == nil {
		d.gates[name] = make(chan struct{})
	}
	return d.gates[name]
}

// openGate lets every step go on that waits for name.
func (d *desk) openGate(name string) { close(d.gate(name)) }

func (d *desk) run(ctx context.Context, t sessions.Turn, a *sessions.Answer) (cost budget.Micros, err error) {
	text := t.Text + string(t.Data)
	lines, err := t.History(ctx, 1<<16)
	if err != nil {
		return 0, err
	}
	d.mu.Lock()
	d.begun = append(d.begun, text)
	d.said[text] = lines
	d.atOnce++
	d.most = max(d.most, d.atOnce)
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		d.atOnce--
		d.mu.Unlock()
	}()
	given := a.Given()
	write := func(p []byte) error {
		skip := min(given, int64(len(p)))
		given -= skip
		_, err := a.Write(p[skip:])
		return err
	}
	for step := range strings.SplitSeq(text, ";") {
		verb, rest, _ := strings.Cut(strings.TrimLeft(step, " "), " ")
		switch verb {
		case "wait":
			select {
			case <-d.gate(rest):
			case <-ctx.Done():
				return cost, context.Cause(ctx)
			}
		case "deaf":
			<-d.gate(rest)
		case "cost":
			fmt.Sscan(rest, &cost)
		case "fail":
			return cost, fsys.E(fsys.Unavailable, rest)
		case "panic":
			panic("as the script says")
		case "again":
			if a.Resumed() {
				if err := a.Again(ctx); err != nil {
					return cost, err
				}
				given = 0
			}
		case "much":
			var n int
			fmt.Sscan(rest, &n)
			if err := write(bytes.Repeat([]byte("x"), n)); err != nil {
				return cost, err
			}
		case "say":
			if err := write([]byte(rest)); err != nil {
				return cost, err
			}
		}
	}
	return cost, nil
}

// limit is how long a test waits for what must happen.
const limit = 90 * time.Second

func (d *desk) within() context.Context {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(d.Context()), limit)
	d.Cleanup(cancel)
	return fsys.WithCaller(ctx, "bob")
}

func (d *desk) ask(path, req string) (string, error) {
	reply, err := fsys.Converse(d.within(), d.svc.Root(), path, []byte(req))
	return strings.TrimSpace(string(reply)), err
}

// new begins a session and returns its number.
func (d *desk) new(req string) string {
	d.Helper()
	n, err := d.ask("new", req)
	if err != nil {
		d.Fatalf("new %q: %v", req, err)
	}
	return n
}

func (d *desk) prompt(session, text string) string {
	d.Helper()
	n, err := d.ask(session+"/prompt", text)
	if err != nil {
		d.Fatalf("prompt %q: %v", text, err)
	}
	return n
}

func (d *desk) ctl(session, command string) {
	d.Helper()
	if err := fsys.WriteFile(d.within(), d.svc.Root(), session+"/ctl", []byte(command+"\n")); err != nil {
		d.Fatalf("%s: %v", command, err)
	}
}

// refused checks that err has the code and the word in its reason.
func (d *desk) refused(what string, err error, code fsys.Code, word string) {
	d.Helper()
	if err == nil || fsys.CodeOf(err) != code || !strings.Contains(fsys.ReasonOf(err), word) {
		d.Errorf("%s: %v (%s), want %v with %q", what, err, fsys.CodeOf(err), code, word)
	}
}

func (d *desk) read(path string) string {
	d.Helper()
	b, err := fsys.ReadFile(d.within(), d.svc.Root(), path)
	if err != nil {
		d.Fatalf("reading %s: %v", path, err)
	}
	return string(b)
}

type status struct {
	State                  string
	Title, Profile, Reason string
	Ends, Ended            string
	Prompts, Running       int64
	Waiting, Attempt       int
	Cost                   int64 `json:"cost_microusd"`
}

func (d *desk) status(session string) (s status) {
	d.Helper()
	if err := json.Unmarshal([]byte(d.read(session+"/status")), &s); err != nil {
		d.Fatal(err)
	}
	return s
}

// A reader reads a stream from an offset on.
type reader struct {
	d   *desk
	h   fsys.Handle
	off int64
	buf string // read, and not yet taken
}

func (d *desk) reader(path string, off int64) *reader {
	d.Helper()
	h, err := fsys.OpenPath(d.within(), d.svc.Root(), path, fsys.Read)
	if err != nil {
		d.Fatalf("opening %s: %v", path, err)
	}
	return &reader{d: d, h: h, off: off}
}

// more reads once, and reports whether the stream goes on.
func (r *reader) more() bool {
	b := make([]byte, 64<<10)
	n, err := fsys.ReadAt(r.d.within(), r.h, b, r.off)
	r.off += int64(n)
	r.buf += string(b[:n])
	if err != nil && err != io.EOF {
		r.d.Fatalf("reading: %v", err)
	}
	return n > 0
}

// want reads until there is text, and that must be it.
func (r *reader) want(text string) {
	r.d.Helper()
	for len(r.buf) < len(text) && r.more() {
	}
	if !strings.HasPrefix(r.buf, text) {
		r.d.Fatalf("the stream has %q, want %q", r.buf, text)
	}
	r.buf = r.buf[len(text):]
}

// line reads a line of a transcript; false at its end.
func (r *reader) line() (l sessions.Line, ok bool) {
	r.d.Helper()
	for !strings.Contains(r.buf, "\n") {
		if !r.more() {
			return l, false
		}
	}
	line, rest, _ := strings.Cut(r.buf, "\n")
	r.buf = rest
	if err := json.Unmarshal([]byte(line), &l); err != nil {
		r.d.Fatalf("a line of the transcript is %q: %v", line, err)
	}
	return l, true
}

// answer reads the transcript until the answer to a prompt.
func (r *reader) answer(prompt int64) sessions.Line {
	r.d.Helper()
	for {
		l, ok := r.line()
		if !ok {
			r.d.Fatalf("the transcript has ended without an answer to prompt %d", prompt)
		}
		if l.Prompt == prompt && (l.Role == sessions.Assistant && l.Outcome != sessions.CutShort || l.Event == sessions.Cancelled) {
			return l
		}
	}
}

// said is a transcript in short: what there is now.
func (d *desk) transcript(session string) string {
	d.Helper()
	n, err := fsys.WalkPath(d.within(), d.svc.Root(), session+"/transcript")
	if err != nil {
		d.Fatal(err)
	}
	info, err := n.Stat(d.within())
	if err != nil {
		d.Fatal(err)
	}
	var b strings.Builder
	r := d.reader(session+"/transcript", 0)
	for n := int64(1); r.off < info.Size || r.buf != ""; n++ {
		l, _ := r.line()
		if l.N != n {
			d.Errorf("line %d of the transcript has the number %d", n, l.N)
		}
		fmt.Fprintf(&b, "%s", l.Role)
		for _, s := range []string{l.Event, string(l.Author), l.Text, string(l.Data), l.Outcome, l.Reason} {
			if s != "" {
				b.WriteString(" " + strings.TrimSpace(s))
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

func (d *desk) equal(what, got, want string) {
	d.Helper()
	if got != want {
		d.Errorf("%s:\ngot  %q\nwant %q", what, got, want)
	}
}
