package containers

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"agent9/fsys"
	"agent9/providers/sandboxes"
	"agent9/services/internal/work"
	"agent9/store"
)

// workspace is one that persists from one session to the next. Session has it
// and may write there; 0 is nobody. Last is who had it before, in Sandbox, which
// is removed when somebody else gets the workspace: a provider need not be able
// to give one to two.
type workspace struct {
	Name     string    `json:"name"`
	Provider string    `json:"provider"`
	Session  int64     `json:"session"`
	Last     int64     `json:"last,omitempty"`
	Sandbox  string    `json:"sandbox,omitempty"`
	Made     time.Time `json:"made"`
	Used     time.Time `json:"used"`
}

func workKey(id, name string) string { return workPrefix + id + "/" + name }

// workspaceID is what providers call the agent's workspace of that name.
func (s *Service) workspaceID(name string) string { return s.config.Owner + "-" + name }

// lockWorkspace gives session n the workspace that it asks for, or says who
// has it.
func (s *Service) lockWorkspace(ctx context.Context, tx store.Store, pl plan, n int64) error {
	return s.takeWorkspace(ctx, tx, pl, string(pl.req.Workspace), n)
}

func (s *Service) takeWorkspace(ctx context.Context, tx store.Store, pl plan, name string, n int64) error {
	if name == "" {
		return nil
	}
	key := workKey(pl.runner.ID(), name)
	ws, err := store.GetJSON[workspace](ctx, tx, key)
	switch {
	case missing(err):
		full := false
		err := table.Change(ctx, tx, func(t *totals) {
			t.Works++
			full = t.Works > pl.policy.MaxWorkspaces
		})
		if full {
			return fsys.E(fsys.Exhausted, fmt.Sprintf("the policy lets %d workspaces persist; remove one in workspaces", pl.policy.MaxWorkspaces))
		}
		if err != nil {
			return err
		}
		ws = workspace{Name: name, Provider: pl.runner.ID(), Made: s.config.Now()}
	case err != nil:
		return err
	case ws.Session == removing:
		return fsys.E(fsys.Busy, "the workspace "+name+" is being removed")
	case ws.Session != 0:
		return fsys.E(fsys.Busy, fmt.Sprintf("session %d has the workspace %s; try again when that has ended", ws.Session, name))
	}
	ws.Session, ws.Used = n, s.config.Now()
	return store.PutJSON(ctx, tx, key, ws)
}

// unlockWorkspace gives back the workspace of r's session, which has ended.
func (s *Service) unlockWorkspace(ctx context.Context, tx store.Store, r *record) error {
	if r.Workspace == "" {
		return nil
	}
	return s.giveWorkspace(ctx, tx, r.Provider, r.Workspace, r.Number, r.Sandbox)
}

func (s *Service) giveWorkspace(ctx context.Context, tx store.Store, id, name string, n int64, sandbox string) error {
	ws, err := store.GetJSON[workspace](ctx, tx, workKey(id, name))
	if missing(err) || err == nil && ws.Session != n {
		return nil
	}
	if err != nil {
		return err
	}
	ws.Session, ws.Last, ws.Sandbox, ws.Used = 0, n, sandbox, s.config.Now()
	return store.PutJSON(ctx, tx, workKey(id, name), ws)
}

// freeWorkspaces gives back what sessions had that are not there any more, as
// the program ended while they copied.
func (s *Service) freeWorkspaces(ctx context.Context) error {
	for p, err := range store.All(ctx, store.Forgiving(s.st), workPrefix) {
		if err != nil {
			return err
		}
		ws, err := store.GetJSON[workspace](ctx, s.st, p.Key)
		if store.IsDamaged(err) {
			continue // it can be removed
		}
		if err != nil {
			return err
		}
		if ws.Session <= 0 || s.ledger.Cache.Live(ws.Session) != nil {
			continue
		}
		ws.Session = 0
		if err := store.PutJSON(ctx, s.st, p.Key, ws); err != nil {
			return err
		}
	}
	return nil
}

// workspaceFree refuses to look at the files of r's session, which has ended,
// when another one got its workspace.
func (s *Service) workspaceFree(ctx context.Context, r record) error {
	if r.Workspace == "" {
		return nil
	}
	ws, err := store.GetJSON[workspace](ctx, s.st, workKey(r.Provider, r.Workspace))
	switch {
	case missing(err):
		return fsys.E(fsys.NotExist, "the workspace "+r.Workspace+" was removed, and the session's files with it")
	case err != nil:
		return err
	case ws.Session != 0:
		return fsys.E(fsys.Busy, fmt.Sprintf("session %d has the workspace %s now; its files are there", ws.Session, r.Workspace))
	case ws.Last != r.Number:
		return fsys.E(fsys.NotExist, fmt.Sprintf("session %d had the workspace %s after this one; its files are there", ws.Last, r.Workspace))
	}
	return nil
}

// freeWorkspace removes the sandbox that had the workspace last.
func (s *Service) freeWorkspace(ctx context.Context, r *sandboxes.Runner, name string) error {
	key := workKey(r.ID(), name)
	ws, err := store.GetJSON[workspace](ctx, s.st, key)
	if err != nil || ws.Sandbox == "" {
		return err
	}
	if w := s.ledger.Cache.Known(ws.Last); w != nil {
		w.closeSight(true)
	}
	if err := s.removeSandbox(ctx, r, ws.Sandbox); err != nil {
		return fsys.Wrap(fsys.Unavailable, "the sandbox that had the workspace before", err)
	}
	return s.st.Update(ctx, func(tx store.Store) error {
		ws, err := store.GetJSON[workspace](ctx, tx, key)
		if err != nil {
			return err
		}
		ws.Sandbox = ""
		return store.PutJSON(ctx, tx, key, ws)
	})
}

// workspaces is the directory of those that persist: name@provider.
type workspaces struct{ s *Service }

func (d workspaces) all(ctx context.Context) ([]workspace, error) {
	var all []workspace
	for p, err := range store.All(ctx, store.Forgiving(d.s.st), workPrefix) {
		if err != nil {
			return nil, err
		}
		id, name, _ := strings.Cut(p.Key[len(workPrefix):], "/")
		all = append(all, workspace{Name: name, Provider: id})
	}
	return all, nil
}

func (ws workspace) file() string { return ws.Name + "@" + ws.Provider }

func (d workspaces) List(ctx context.Context) ([]fsys.Entry, error) {
	all, err := d.all(ctx)
	if err != nil {
		return nil, err
	}
	var list []fsys.Entry
	for _, ws := range all {
		list = append(list, fsys.Entry{Name: ws.file(), Node: workspaceFile{d.s, ws.Provider, ws.Name}})
	}
	return list, nil
}

func (d workspaces) Walk(ctx context.Context, file string) (fsys.Node, error) {
	name, id, ok := strings.Cut(file, "@")
	if !ok {
		return nil, fsys.NotExist
	}
	if has, err := store.Has(ctx, d.s.st, workKey(id, name)); err != nil || !has {
		return nil, cmp.Or(err, error(fsys.NotExist))
	}
	return workspaceFile{d.s, id, name}, nil
}

func (d workspaces) Stat(context.Context) (fsys.Info, error) { return fsys.Info{Perm: 0o755}, nil }

// workspaceFile says who has a workspace. Removing it removes the workspace.
type workspaceFile struct {
	s              *Service
	provider, name string
}

var _ fsys.Remover = workspaceFile{}

type workspaceStatus struct {
	Name     string `json:"name"`
	Provider string `json:"provider"`
	Session  int64  `json:"session,omitempty"` // has it now
	Made     string `json:"made"`
	Used     string `json:"used"`
}

func (f workspaceFile) text() fsys.Node {
	return fsys.JSON(func(ctx context.Context) (workspaceStatus, error) {
		ws, err := store.GetJSON[workspace](ctx, f.s.st, workKey(f.provider, f.name))
		return workspaceStatus{ws.Name, ws.Provider, ws.Session, work.Stamp(ws.Made), work.Stamp(ws.Used)}, err
	})
}

func (f workspaceFile) Stat(ctx context.Context) (fsys.Info, error) {
	info, err := f.text().Stat(ctx)
	if store.IsDamaged(err) {
		err = nil // it is there, and can be removed
	}
	return info, err
}

func (f workspaceFile) Open(ctx context.Context, flag fsys.Flag) (fsys.Handle, error) {
	return f.text().Open(ctx, flag)
}

// has returns the session that works and has a workspace; 0: none.
func (s *Service) has(provider, name string) int64 {
	for _, w := range s.ledger.Cache.AllLive() {
		if r := w.Record(); r.Provider == provider && r.Workspace == name {
			return w.N
		}
	}
	return 0
}

// removing is who has a workspace that is being removed.
const removing = -1

func (f workspaceFile) Remove(ctx context.Context) error {
	key := workKey(f.provider, f.name)
	err := f.s.st.Update(ctx, func(tx store.Store) error {
		ws, err := store.GetJSON[workspace](ctx, store.Forgiving(tx), key)
		if store.IsDamaged(err) {
			ws, err = workspace{Name: f.name, Provider: f.provider, Session: f.s.has(f.provider, f.name)}, nil
		}
		switch {
		case err != nil:
			return err
		case ws.Session > 0:
			return fsys.E(fsys.Busy, fmt.Sprintf("session %d has the workspace %s", ws.Session, f.name))
		}
		ws.Session = removing
		return store.PutJSON(ctx, tx, key, ws)
	})
	if err != nil {
		return err
	}
	if r := f.s.config.Providers.Get(f.provider); r != nil {
		if err := f.s.freeWorkspace(ctx, r, f.name); err != nil {
			return err
		}
		if err := r.RemoveWorkspace(ctx, f.s.workspaceID(f.name)); err != nil {
			return err
		}
	}
	return f.s.st.Update(context.WithoutCancel(ctx), func(tx store.Store) error {
		if err := tx.Delete(ctx, key); err != nil {
			return err
		}
		return table.Change(ctx, tx, func(t *totals) { t.Works = max(t.Works-1, 0) })
	})
}
