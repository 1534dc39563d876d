package compute

import (
	"context"
	"time"

	"agent9/fsys"
	"agent9/store"
)

// draft is the directory of a job that has not been submitted.
type draft struct {
	s    *Service
	name string
	made time.Time
}

func draftDir(s *Service, name string, made time.Time) fsys.Node {
	d := draft{s, name, made}
	return fsys.NewTableWith(d, fsys.Entry{
		Name: "request",
		Node: &fsys.Call{Do: d.submit, Admit: s.admit, Effect: fsys.Spends},
	})
}

func (draft) Walk(context.Context, string) (fsys.Node, error) { return nil, fsys.NotExist }
func (draft) List(context.Context) ([]fsys.Entry, error)      { return nil, nil }
func (d draft) Stat(context.Context) (fsys.Info, error) {
	return fsys.Info{Perm: 0o755, ModTime: d.made}, nil
}

func (d draft) submit(ctx context.Context, raw []byte) ([]byte, error) {
	sub, err := parseSubmission(raw)
	if err != nil {
		return nil, err
	}
	if sub.key != "" && sub.key != d.name {
		return nil, fsys.E(fsys.Invalid, "the idempotency_key of this draft is its name, "+d.name)
	}
	sub.key = d.name
	return d.s.submit(ctx, sub)
}

func (d draft) Remove(ctx context.Context) error {
	return d.s.st.Update(ctx, func(tx store.Store) error {
		name, err := d.s.claimDraft(ctx, tx, d.name)
		if err == nil && name == "" {
			return fsys.NotExist
		}
		return err
	})
}

// claimDraft takes the draft called name away and returns its name, or "" if
// there is none.
func (s *Service) claimDraft(ctx context.Context, tx store.Store, name string) (string, error) {
	if name == "" {
		return "", nil
	}
	switch _, err := tx.Get(ctx, draftPref+name); {
	case missing(err):
		return "", nil
	case err != nil:
		return "", err
	}
	if err := table.Change(ctx, tx, func(t *totals) { t.Draft-- }); err != nil {
		return "", err
	}
	return name, tx.Delete(ctx, draftPref+name)
}
