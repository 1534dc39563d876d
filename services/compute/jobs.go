package compute

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"agent9/fsys"
	"agent9/services/internal/work"
	"agent9/store"
)

// jobs is the directory of jobs and drafts. A job is listed under its number,
// or the name that it had as a draft, and is found under both, and under its
// key.
type jobs struct{ s *Service }

// Walk is one look-up of a number, or two of a name.
func (d jobs) Walk(ctx context.Context, name string) (fsys.Node, error) {
	if n, ok := work.Number(name); ok {
		return d.s.dir(ctx, n)
	}
	switch entry, err := d.s.ledger.Keys.LookUp(ctx, d.s.st, name); {
	case err == nil:
		return d.s.dir(ctx, entry.Number)
	case !missing(err):
		return nil, err
	}
	made, err := store.GetJSON[time.Time](ctx, d.s.st, draftPref+name)
	if err != nil {
		return nil, err
	}
	return draftDir(d.s, name, made), nil
}

func (s *Service) dir(ctx context.Context, n int64) (fsys.Node, error) {
	j, err := s.ledger.Find(ctx, n)
	if store.IsDamaged(err) {
		return work.Damaged(err, func(ctx context.Context) error { return s.ledger.RemoveDamaged(ctx, n) }), nil
	}
	if err != nil {
		return nil, err
	}
	return work.Dir(j, files), nil
}

// List reads names only; a job is read when somebody looks at it.
func (d jobs) List(ctx context.Context) ([]fsys.Entry, error) {
	list, err := d.s.ledger.List(ctx, d)
	if err != nil {
		return nil, err
	}
	for p, err := range store.All(ctx, store.Forgiving(d.s.st), draftPref) {
		if err != nil {
			return nil, err
		}
		name := p.Key[len(draftPref):]
		list = append(list, fsys.Entry{Name: name, Node: work.Later(d, name)})
	}
	return list, nil
}

// maxDrafts is how many drafts there may be.
const maxDrafts = 1024

// Mkdir makes a draft.
func (d jobs) Mkdir(ctx context.Context, name string, _ fs.FileMode) (fsys.Node, error) {
	if strings.Trim(name, "0123456789") == "" {
		return nil, fsys.E(fsys.Invalid, "a name of digits only is a job's number")
	}
	err := d.s.st.Update(ctx, func(tx store.Store) error {
		switch entry, err := d.s.ledger.Keys.LookUp(ctx, tx, name); {
		case err == nil:
			return fsys.E(fsys.Exist, fmt.Sprintf("the name %s stands for job %d", name, entry.Number))
		case !missing(err):
			return err
		}
		if _, err := tx.Get(ctx, draftPref+name); !missing(err) {
			return cmp.Or(err, error(fsys.Exist))
		}
		full := false
		err := table.Change(ctx, tx, func(t *totals) {
			t.Draft++
			full = t.Draft > maxDrafts
		})
		if full {
			return fsys.E(fsys.Busy, "there are too many drafts; remove some")
		}
		if err != nil {
			return err
		}
		return store.PutJSON(ctx, tx, draftPref+name, d.s.config.Now())
	})
	if err != nil {
		return nil, err
	}
	return work.Later(d, name), nil
}

// Stat gives the directory its permissions; when it changed is not kept.
func (d jobs) Stat(context.Context) (fsys.Info, error) { return fsys.Info{Perm: 0o755}, nil }
