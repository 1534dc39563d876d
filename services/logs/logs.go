// Package logs serves what happened to an agent:
//
//	trace        Stream from the moment of open: events as they happen
//	recent       Text: the last 512 events, or fewer if they are long
//	trajectory   Stream from the beginning: every event ever
//	ticks        Text: the agent's runs, one line each: see [Tick]
//	errors       Text that grows: what was refused: see [Logs.Refused]
//	write        Message: the agent's own lines, text or a JSON object
//
// Everything is JSON, one object on a line. An event has time and event, and
// beside them the fields that tell about it:
//
//	{"time":"2026-01-02T03:04:05.678Z","event":"inbox.received","id":"…",…}
//
// A line that the agent writes is the event "log" with by, who wrote it, and
// text or data, what was written.
package logs

import (
	"context"
	"encoding/json"
	"sync"
	"time"
	"unicode/utf8"

	"agent9/fsys"
	"agent9/store"
)

// Options of logs.
type Options struct {
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// OnEvent, if set, is given the line of every event when it is durable,
	// in their order. It must not block, and does not change or keep line. It
	// stays in memory while something waits to be summed up.
	OnEvent func(line []byte)
}

// Logs are the logs of one agent. A view of a store must not have two at a
// time.
type Logs struct {
	st                        store.Updater
	opt                       Options
	trajectory, ticks, errors *store.Log
	root                      *fsys.Table

	mu      sync.Mutex
	tallies map[string]*tally
	ended   bool
	summing sync.WaitGroup // those that record what was summed up; begun before ended
}

// Open returns the logs that are kept in st, which may be empty. It reads the
// length of each and nothing else.
func Open(ctx context.Context, st store.Updater, opt Options) (*Logs, error) {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	l := &Logs{st: st, opt: opt, tallies: map[string]*tally{}}
	for _, log := range []struct {
		prefix string
		to     **store.Log
	}{{"trajectory/", &l.trajectory}, {"ticks/", &l.ticks}, {"errors/", &l.errors}} {
		var err error
		if *log.to, err = store.OpenLog(ctx, store.Sub(st, log.prefix)); err != nil {
			return nil, err
		}
	}
	l.root = fsys.NewTable(
		fsys.Entry{Name: "trace", Node: l.trajectory.Tape().Live()},
		fsys.Entry{Name: "recent", Node: fsys.Text(l.recent)},
		fsys.Entry{Name: "trajectory", Node: l.trajectory.Tape()},
		fsys.Entry{Name: "ticks", Node: &past{l.ticks}},
		fsys.Entry{Name: "errors", Node: &past{l.errors}},
		fsys.Entry{Name: "write", Node: &fsys.Call{Do: l.write}},
	)
	return l, nil
}

// End says that nothing more will come: the streams have ended.
func (l *Logs) End() {
	l.hush()
	l.trajectory.Tape().End()
}

// Root returns /logs.
func (l *Logs) Root() fsys.Node { return l.root }

// Trajectory returns the stream of every event.
func (l *Logs) Trajectory() *fsys.Tape { return l.trajectory.Tape() }

// Note records an event in the transaction that tx belongs to, which may be
// one of any view of the same database. The JSON form of detail is an object
// without the fields time and event; nil is none.
func (l *Logs) Note(tx store.Store, event string, detail any) error {
	line, err := l.eventLine(event, detail)
	if err != nil {
		return err
	}
	if err := l.trajectory.Append(tx, line); err != nil {
		return err
	}
	if l.opt.OnEvent != nil {
		store.After(tx, func() { l.opt.OnEvent(line) })
	}
	return nil
}

// Event records an event in a transaction of its own.
func (l *Logs) Event(ctx context.Context, event string, detail any) error {
	return l.st.Update(ctx, func(tx store.Store) error { return l.Note(tx, event, detail) })
}

type stamp struct {
	Time  string `json:"time"`
	Event string `json:"event"`
}

func (l *Logs) eventLine(event string, detail any) ([]byte, error) {
	line := fsys.Line(stamp{l.now(), event})
	if detail == nil {
		return line, nil
	}
	fields := fsys.Line(detail)
	switch {
	case fields[0] != '{':
		return nil, fsys.E(fsys.Internal, "the detail of the event "+event+" is not a JSON object")
	case fields[1] == '}':
		return line, nil
	}
	return append(append(line[:len(line)-len("}\n")], ','), fields[1:]...), nil
}

func (l *Logs) now() string { return fsys.Stamp(l.opt.Now()) }

// write is a request to write.
func (l *Logs) write(ctx context.Context, req []byte) ([]byte, error) {
	own := ownLine{By: fsys.CallerOf(ctx)}
	switch {
	case !utf8.Valid(req):
		return nil, fsys.E(fsys.Invalid, "a log line must be UTF-8 text; encode other bytes, as base64 for example")
	case req[0] == '{':
		own.Data = req
	default:
		own.Text = string(req)
	}
	return nil, l.Event(ctx, "log", own)
}

type ownLine struct {
	By   fsys.Caller     `json:"by,omitempty"`
	Text string          `json:"text,omitempty"`
	Data json.RawMessage `json:"data,omitempty"`
}
