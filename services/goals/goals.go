// Package goals serves what an agent is to achieve, as ordinary files:
//
//	<name>         Stored: a goal, free text or JSON; create by writing, rm, rename
//	<name>/        mkdir makes a goal of sub-goals
//
// Events: goal.created, goal.changed (once per writer, not per write),
// goal.renamed and goal.removed.
package goals

import (
	"context"

	"agent9/fsys"
	"agent9/store"
	"agent9/store/files"
)

// New returns the goals that are kept in st, which may be empty. changed, which may be
// nil, is told which path was changed, in the transaction of the change.
func New(ctx context.Context, st store.Updater, note store.Note, changed func(ctx context.Context, tx store.Store, path string) error) (*files.Tree, error) {
	opt := files.Options{MaxFile: 16 << 20, MaxBytes: 256 << 20, MaxEntries: 10_000}
	opt.Note = func(ctx context.Context, tx store.Store, c files.Change) error {
		for _, path := range []string{c.Path, c.To} {
			if path == "" || changed == nil {
				continue
			}
			if err := changed(ctx, tx, path); err != nil {
				return err
			}
		}
		return note.Record(tx, "goal."+string(c.Op), told{c.Path, c.To, c.Dir, c.Size, fsys.CallerOf(ctx)})
	}
	tree, err := files.New(ctx, st, opt)
	if err != nil {
		return nil, err
	}
	return tree, tree.Recover(ctx)
}

type told struct {
	Goal string      `json:"goal"`
	To   string      `json:"to,omitempty"`
	Dir  bool        `json:"dir,omitempty"`
	Size int64       `json:"size"`
	By   fsys.Caller `json:"by,omitempty"`
}
