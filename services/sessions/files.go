package sessions

import (
	"context"
	"slices"
	"strconv"
	"time"

	"agent9/fsys"
	"agent9/namespace/budget"
	"agent9/services/internal/work"
	"agent9/store"
)

const newName = "new"

// list is the sessions that there are, by number.
type list struct{ s *Service }

func (l list) Walk(ctx context.Context, name string) (fsys.Node, error) {
	n, ok := work.Number(name)
	if !ok {
		return nil, fsys.NotExist
	}
	x := l.s.session(n)
	switch _, err := x.record(ctx); {
	case store.IsDamaged(err):
		return work.Damaged(err, x.removeDamaged), nil
	case err != nil:
		return nil, err
	}
	return work.Dir(x, files), nil
}

func (l list) List(ctx context.Context) ([]fsys.Entry, error) {
	var entries []fsys.Entry
	for p, err := range store.All(ctx, store.Forgiving(l.s.st), listPrefix) {
		if err != nil {
			return nil, err
		}
		n, err := numberIn(p.Key, listPrefix)
		if err != nil {
			return nil, err
		}
		name := strconv.FormatInt(n, 10)
		entries = append(entries, fsys.Entry{Name: name, Node: work.Later(l, name)})
	}
	return entries, nil
}

// Stat gives the directory its permissions; when it changed is not kept.
func (list) Stat(context.Context) (fsys.Info, error) { return fsys.Info{Perm: 0o755}, nil }

// files are the files of a session.
var files = []work.File[*session]{
	{Name: "prompt", Node: func(x *session) fsys.Node {
		return &fsys.Call{Do: x.prompt, Admit: x.admit, Effect: fsys.Spends}
	}},
	{Name: "queue", Node: func(x *session) fsys.Node { return fsys.Text(x.queue) }},
	{Name: "stream", Node: func(x *session) fsys.Node { return work.Stream(x, streamTape) }},
	{Name: "transcript", Node: func(x *session) fsys.Node { return work.Stream(x, transcriptTape) }},
	{Name: "status", Node: func(x *session) fsys.Node { return fsys.JSON(x.status) }},
	{Name: "ctl", Node: func(x *session) fsys.Node { return &fsys.Ctl{Do: x.control, Text: verbs} }},
}

var _ work.Work = (*session)(nil)

func streamTape(ctx context.Context, x *session) (*fsys.Tape, error) {
	_, stream, err := x.open(ctx)
	if err != nil {
		return nil, err
	}
	return stream.Tape(), nil
}

func transcriptTape(ctx context.Context, x *session) (*fsys.Tape, error) {
	transcript, _, err := x.open(ctx)
	if err != nil {
		return nil, err
	}
	return transcript.Tape(), nil
}

// now is the record as it is, for what has no context.
func (x *session) now() (record, error) { return x.record(context.WithoutCancel(x.s.life)) }

func (x *session) Present() error {
	_, err := x.now()
	return err
}

func (x *session) Hidden() []string {
	r, _ := x.now() // what is not there has no files
	return r.Hidden
}

func (x *session) ModTime() time.Time {
	r, _ := x.now() // as above
	return r.Active
}

func (x *session) Hide(ctx context.Context, name string) error {
	return x.change(ctx, func(c *change) error {
		if !slices.Contains(c.Hidden, name) {
			c.Hidden = append(slices.Clone(c.Hidden), name)
		}
		return nil
	})
}

// Remove ends the session and takes it away, when what runs in it has stopped.
func (x *session) Remove(ctx context.Context) error {
	err := x.remove(ctx)
	if store.IsDamaged(err) {
		err = x.removeDamaged(ctx)
	}
	return err
}

// removeDamaged removes a session whose record is damaged.
func (x *session) removeDamaged(ctx context.Context) error {
	return x.s.st.Update(ctx, func(tx store.Store) error { return x.s.erase(ctx, tx, x.n, work.Why) })
}

func (x *session) remove(ctx context.Context) error {
	return x.change(ctx, func(c *change) error {
		if c.Removing {
			return fsys.NotExist
		}
		c.Removing = true
		if c.ended() || c.Ending != "" {
			return nil
		}
		return c.endAt(c.now, fsys.CallerOf(ctx), "the session was removed")
	})
}

// statusFile is the content of status.
type statusFile struct {
	Session int64         `json:"session"`
	State   string        `json:"state"` // idle, running, paused, ended
	Title   string        `json:"title,omitempty"`
	Profile string        `json:"profile,omitempty"`
	By      fsys.Caller   `json:"by,omitempty"` // who began it
	Created string        `json:"created"`
	Active  string        `json:"active"`         // the last prompt, answer or command
	Ends    string        `json:"ends,omitempty"` // if nothing happens
	Ended   string        `json:"ended,omitempty"`
	Reason  string        `json:"reason,omitempty"` // it has ended
	Prompts int64         `json:"prompts"`          // the number of the last one
	Waiting int           `json:"waiting"`
	Running int64         `json:"running,omitempty"` // the prompt that is being answered
	Attempt int           `json:"attempt,omitempty"` // if it is not the first
	Size    int64         `json:"size"`
	Cost    budget.Micros `json:"cost_microusd"`
}

func (x *session) status(ctx context.Context) (statusFile, error) {
	r, err := x.record(ctx)
	f := statusFile{
		Session: r.Number, State: r.state(), Title: r.Title, Profile: r.Profile, By: r.By,
		Created: work.Stamp(r.Created), Active: work.Stamp(r.Active), Ended: work.Stamp(r.Ended), Reason: r.Why,
		Prompts: r.Prompts, Waiting: r.Waiting, Running: r.Running, Size: r.Size, Cost: r.Cost,
	}
	if r.idle() {
		f.Ends = work.Stamp(r.Ends)
	}
	if r.Attempt > 1 {
		f.Attempt = r.Attempt
	}
	return f, err
}

// state is what a person calls it.
func (r *record) state() string {
	switch {
	case r.ended():
		return "ended"
	case r.Paused:
		return "paused"
	case r.Running != 0:
		return "running"
	}
	return "idle"
}
