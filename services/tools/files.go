package tools

import (
	"context"
	"encoding/json"

	"agent9/fsys"
	provider "agent9/providers/tools"
	"agent9/services/internal/work"
)

// Names of files.
const (
	schemaFile = "schema"
	statusFile = "status"
	callFile   = "call"
)

// servers is the directory of all servers.
type servers struct{ s *Service }

func (d servers) Walk(_ context.Context, name string) (fsys.Node, error) {
	x, err := d.s.server(name)
	if err != nil {
		return nil, err
	}
	return x.dir(), nil
}

func (d servers) List(context.Context) (list []fsys.Entry, _ error) {
	for _, name := range d.s.names() {
		list = append(list, fsys.Entry{Name: name, Node: work.Later(d, name)})
	}
	return list, nil
}

// dir is the directory of a server. Of one that fails there are only schema
// and status.
func (x *server) dir() fsys.Node {
	return fsys.NewTableWith(toolSet{x},
		fsys.Entry{Name: schemaFile, Node: shown{x, x.schema}},
		fsys.Entry{Name: statusFile, Node: fsys.JSON(x.status)},
	)
}

// toolSet is the tools of a server.
type toolSet struct{ x *server }

func (d toolSet) Walk(ctx context.Context, name string) (fsys.Node, error) {
	_, tools, _, err := d.x.look(ctx)
	if err != nil {
		return nil, err
	}
	for _, t := range tools {
		if t.file == name {
			return d.x.tool(t), nil
		}
	}
	return nil, fsys.NotExist
}

// List has the tools of a server that runs, or may be started for it.
func (d toolSet) List(ctx context.Context) (list []fsys.Entry, _ error) {
	if !fsys.MayStart(ctx) && d.x.idling() {
		return nil, nil
	}
	_, tools, _, err := d.x.look(ctx)
	if err != nil {
		return nil, ctx.Err() // what is wrong, status says
	}
	for _, t := range tools {
		list = append(list, fsys.Entry{Name: t.file, Node: d.x.tool(t)})
	}
	return list, nil
}

func (x *server) tool(t named) fsys.Node {
	effect := fsys.Changes
	if x.config.Price > 0 {
		effect = fsys.Spends
	}
	return fsys.NewTable(
		fsys.Entry{Name: schemaFile, Node: fsys.Text(func(context.Context) ([]byte, error) {
			return append(t.Schema[:len(t.Schema):len(t.Schema)], '\n'), nil
		})},
		fsys.Entry{Name: callFile, Node: &fsys.Call{Effect: effect, Admit: x.admit, Do: func(ctx context.Context, req []byte) ([]byte, error) {
			return x.call(ctx, t.Name, req)
		}}},
	)
}

// look returns the tools as they are now.
func (x *server) look(ctx context.Context) (provider.About, []named, []refused, error) {
	session, release, err := x.use(ctx)
	if err != nil {
		return provider.About{}, nil, nil, err
	}
	defer release()
	list, err := session.List(ctx)
	if err != nil {
		return provider.About{}, nil, nil, err
	}
	tools, not := name(list)
	return session.About(), tools, not, nil
}

type schema struct {
	Server provider.About    `json:"server"`
	Tools  []json.RawMessage `json:"tools"`
}

func (x *server) schema(ctx context.Context) ([]byte, error) {
	about, tools, _, err := x.look(ctx)
	if err != nil {
		return nil, err
	}
	all := schema{about, []json.RawMessage{}}
	for _, t := range tools {
		all.Tools = append(all.Tools, t.Schema)
	}
	return fsys.Line(all), nil
}

// report is the status of a server. It starts nothing.
type report struct {
	State   string        `json:"state"` // idle, running or failing
	Since   string        `json:"since,omitempty"`
	Calls   int           `json:"calls"` // under way
	Tools   []string      `json:"tools,omitempty"`
	Refused []refused     `json:"refused,omitempty"`
	Error   *work.Failure `json:"error,omitempty"`
	Until   string        `json:"aside_until,omitempty"`
}

func (x *server) status(ctx context.Context) (report, error) {
	x.mu.Lock()
	session := x.session
	r := report{State: "idle", Calls: x.calls}
	if x.failed != nil {
		r.State, r.Error, r.Until = "failing", work.FailureOf(x.failed), work.Stamp(x.until)
	}
	if session != nil {
		r.State, r.Since = "running", work.Stamp(x.since)
	}
	x.mu.Unlock()
	if session == nil {
		return r, nil
	}
	list, err := session.List(ctx)
	if err != nil {
		r.Error = work.FailureOf(err)
		return r, nil
	}
	var tools []named
	tools, r.Refused = name(list)
	for _, t := range tools {
		r.Tools = append(r.Tools, t.file)
	}
	return r, nil
}

// shown is a Text that can be seen to be there also when it cannot be read.
// Reading it starts the server if that does not run.
type shown struct {
	x        *server
	contents func(context.Context) ([]byte, error)
}

func (f shown) Stat(ctx context.Context) (fsys.Info, error) {
	if !fsys.MayStart(ctx) && f.x.idling() {
		return fsys.Info{Perm: 0o444, Acts: true}, nil
	}
	info, err := fsys.Text(f.contents).Stat(ctx)
	if err != nil && ctx.Err() == nil {
		return fsys.Text(func(context.Context) ([]byte, error) { return nil, nil }).Stat(ctx)
	}
	return info, err
}

func (f shown) Open(ctx context.Context, flag fsys.Flag) (fsys.Handle, error) {
	return fsys.Text(f.contents).Open(ctx, flag)
}
