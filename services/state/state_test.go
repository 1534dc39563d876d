package state_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"agent9/fsys"
	"agent9/fsys/fstest"
	"agent9/providers/programs"
	"agent9/services/state"
	"agent9/store"
	"agent9/store/mem"
)

// A bench has a state, and what it told of.
type bench struct {
	*testing.T
	db      *mem.DB
	view    store.Updater
	s       *state.State
	events  []string
	changed []string
}

func newBench(t *testing.T) *bench {
	b := &bench{T: t, db: mem.New()}
	b.view = store.Sub(b.db, "state/")
	b.open()
	return b
}

func (b *bench) open() {
	var err error
	b.s, err = state.New(b.Context(), b.view, state.Options{
		Note: func(tx store.Store, event string, detail any) error {
			line, err := json.Marshal(detail)
			store.After(tx, func() { b.events = append(b.events, event+" "+string(line)) })
			return err
		},
		Changed: func(_ context.Context, tx store.Store, path string) error {
			store.After(tx, func() { b.changed = append(b.changed, path) })
			return nil
		},
	})
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bench) save(root fsys.Node, name, text string) error {
	ns := fsys.NewTable(fsys.Entry{Name: "state", Node: root})
	return programs.Save(fsys.WithCaller(b.Context(), "alice"), ns, "state/"+name, []byte(text))
}

func (b *bench) mustSave(root fsys.Node, name, text string) {
	b.Helper()
	if err := b.save(root, name, text); err != nil {
		b.Fatal(err)
	}
}

// files returns the names and contents of the files in a directory.
func (b *bench) files(root fsys.Node) string {
	b.Helper()
	list, err := fsys.List(b.Context(), root)
	if err != nil {
		b.Fatal(err)
	}
	var all []string
	for _, e := range list {
		text, err := fsys.ReadFile(b.Context(), root, e.Name)
		if err != nil {
			b.Fatal(err)
		}
		all = append(all, e.Name+"="+string(text))
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func (b *bench) draft() (*state.Draft, fsys.Node) {
	b.Helper()
	d, err := b.s.Lock()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(d.Close)
	root, err := d.Open(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	return d, root
}

func (b *bench) equal(what string, got, want any) {
	b.Helper()
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		b.Errorf("%s: got %s, want %s", what, g, w)
	}
}

func TestFilesAreKept(t *testing.T) {
	b := newBench(t)
	b.mustSave(b.s.Root(), "notes", "one")
	b.equal("events", b.events, []string{
		`state.created {"path":"notes","size":0,"by":"alice"}`, `state.changed {"path":"notes","size":3,"by":"alice"}`})
	b.equal("what can set off a tick", strings.Join(slices.Compact(b.changed), " "), "notes")
	b.open()
	b.equal("files", b.files(b.s.Root()), "notes=one")
	if err := fstest.CheckTree(t.Context(), b.s.Root(), "notes"); err != nil {
		t.Error(err)
	}
}

func TestDraftIsCommittedWhole(t *testing.T) {
	b := newBench(t)
	b.mustSave(b.s.Root(), "old", "1")
	b.mustSave(b.s.Root(), "gone", "1")
	b.events, b.changed = nil, nil
	d, root := b.draft()
	b.mustSave(root, "old", "2")
	b.mustSave(root, "new", "2")
	n, err := fsys.Walk(t.Context(), root, "gone")
	if err == nil {
		err = fsys.Remove(t.Context(), n)
	}
	if err != nil {
		t.Fatal(err)
	}
	b.equal("the draft", b.files(root), "new=2 old=2")
	b.equal("what others see", b.files(b.s.Root()), "gone=1 old=1")
	b.equal("events before the commit", len(b.events), 0)

	undone := errors.New("undone")
	err = b.db.Update(t.Context(), func(tx store.Store) error {
		return errors.Join(d.Commit(t.Context(), tx), undone)
	})
	if !errors.Is(err, undone) {
		t.Fatal(err)
	}
	b.equal("what others see of what was undone", b.files(b.s.Root()), "gone=1 old=1")
	b.equal("who writes then", fsys.CodeOf(b.save(b.s.Root(), "old", "3")), fsys.Busy)

	if err := b.db.Update(t.Context(), func(tx store.Store) error { return d.Commit(t.Context(), tx) }); err != nil {
		t.Fatal(err)
	}
	b.equal("what others see", b.files(b.s.Root()), "new=2 old=2")
	b.equal("what a tick sets off", len(b.changed), 0)
	var told []string
	for _, e := range b.events {
		event, _, _ := strings.Cut(e, " ")
		told = append(told, event)
	}
	b.equal("events", told, []string{"state.changed", "state.created", "state.changed", "state.removed"})
	b.mustSave(b.s.Root(), "old", "3")
	if err := b.save(root, "old", "4"); err == nil {
		t.Error("a draft that was committed can be written to")
	}
	b.equal("files at the end", b.files(b.s.Root()), "new=2 old=3")
}

func TestDraftThatIsClosedNeverWas(t *testing.T) {
	b := newBench(t)
	b.mustSave(b.s.Root(), "a", "1")
	d, root := b.draft()
	b.mustSave(root, "a", "2")
	if _, err := b.s.Lock(); fsys.CodeOf(err) != fsys.Busy {
		t.Errorf("a second draft: %v", err)
	}
	err := b.save(b.s.Root(), "a", "3")
	if fsys.CodeOf(err) != fsys.Busy || !strings.Contains(fsys.ReasonOf(err), "a tick is running") {
		t.Errorf("writing meanwhile: %v", err)
	}
	d.Close()
	d.Close()
	b.equal("files", b.files(b.s.Root()), "a=1")
	b.mustSave(b.s.Root(), "a", "3")
	next, _ := b.draft()
	d.Close() // that of another draft is not its business
	b.equal("who writes during the next", fsys.CodeOf(b.save(b.s.Root(), "a", "4")), fsys.Busy)
	next.Close()
}

// A draft takes as much as one tick may change, and says so when that is over.
func TestDraftHasALimit(t *testing.T) {
	b := newBench(t)
	d, root := b.draft()
	big := strings.Repeat("x", 8<<20)
	var err error
	for i := 0; err == nil && i < 5; i++ {
		err = b.save(root, fmt.Sprint("big", i), big)
	}
	b.equal("too much", fsys.CodeOf(err), fsys.NoSpace)
	d.Close()
	b.equal("files", b.files(b.s.Root()), "")
}
