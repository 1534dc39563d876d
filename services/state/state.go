// Package state serves the files that belong to an agent's program:
//
//	<name>         Stored: whatever the program keeps from one tick to the next
//	<name>/        directories
//
// A tick works on a [Draft]: what it changes is seen by itself only, until all
// of it is committed together with whatever else the tick did, or dropped.
// While there is a draft the files can be read by everybody as they were, and
// written by nobody else: that is fsys.Busy. A file that somebody has open
// while a tick that removes it is committed is gone at once.
//
// Events: state.created, state.changed, state.renamed and state.removed.
package state

import (
	"context"
	"sync/atomic"

	"agent9/fsys"
	"agent9/store"
	"agent9/store/files"
	"agent9/store/stage"
)

// Options of a state. Each may be nil.
type Options struct {
	// Note records an event in the transaction of what it tells of.
	Note store.Note
	// Changed is told what was changed at path, but not by a tick.
	Changed func(ctx context.Context, tx store.Store, path string) error
}

// What the files may have, and what one tick may change of them.
const (
	maxFile    = 64 << 20
	maxBytes   = 256 << 20
	maxEntries = 10_000
	maxDraft   = 32 << 20
)

// A State is the files of one agent. A view of a store must not have two at a
// time.
type State struct {
	st   store.Updater
	opt  Options
	tree *files.Tree
	busy atomic.Bool // there is a draft
}

// New returns the state that is kept in st, which may be empty.
func New(ctx context.Context, st store.Updater, opt Options) (*State, error) {
	if opt.Changed == nil {
		opt.Changed = func(context.Context, store.Store, string) error { return nil }
	}
	s := &State{st: st, opt: opt}
	var err error
	s.tree, err = files.New(ctx, shared{st, s}, s.options(func(ctx context.Context, tx store.Store, c files.Change) error {
		if err := s.opt.Changed(ctx, tx, c.Path); err != nil {
			return err
		}
		if c.To != "" {
			if err := s.opt.Changed(ctx, tx, c.To); err != nil {
				return err
			}
		}
		return s.note(tx, told(ctx, c))
	}))
	if err != nil {
		return nil, err
	}
	return s, s.tree.Recover(ctx)
}

// Root returns /state as all but a tick see it.
func (s *State) Root() fsys.Node { return s.tree.Root() }

func (s *State) options(note func(context.Context, store.Store, files.Change) error) files.Options {
	return files.Options{MaxFile: maxFile, MaxBytes: maxBytes, MaxEntries: maxEntries, Note: note, As: s}
}

// event is what is recorded of a change.
type event struct {
	op   files.Op
	Path string      `json:"path"`
	To   string      `json:"to,omitempty"`
	Dir  bool        `json:"dir,omitempty"`
	Size int64       `json:"size"`
	By   fsys.Caller `json:"by,omitempty"`
}

func told(ctx context.Context, c files.Change) event {
	return event{c.Op, c.Path, c.To, c.Dir, c.Size, fsys.CallerOf(ctx)}
}

func (s *State) note(tx store.Store, e event) error {
	return s.opt.Note.Record(tx, "state."+string(e.op), e)
}

var errBusy = fsys.E(fsys.Busy, "a tick is running, and state is its own until it has ended; read it, or try again then")

// shared is the store of the files that everybody sees: it cannot be changed
// while there is a draft.
type shared struct {
	store.Updater
	s *State
}

func (w shared) Update(ctx context.Context, f func(tx store.Store) error) error {
	return w.Updater.Update(ctx, func(tx store.Store) error {
		if w.s.busy.Load() {
			return errBusy
		}
		return f(tx)
	})
}

func (w shared) Put(ctx context.Context, key string, value []byte) error {
	return w.Update(ctx, func(tx store.Store) error { return tx.Put(ctx, key, value) })
}

func (w shared) Delete(ctx context.Context, key string) error {
	return w.Update(ctx, func(tx store.Store) error { return tx.Delete(ctx, key) })
}

// Lock keeps everybody from changing the files until the draft that it returns
// is closed. What was changed before is on disk once any transaction that
// began after Lock was committed: only then the draft is opened. Busy if there
// is one already.
func (s *State) Lock() (*Draft, error) {
	if s.busy.Swap(true) {
		return nil, errBusy
	}
	return &Draft{s: s, stage: stage.New(s.st, maxDraft)}, nil
}
