package agent

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"agent9/fsys"
	"agent9/services/identity"
	"agent9/services/ticks"
	"agent9/store"
	"agent9/store/mem"
)

// newAgent makes an agent with the parts of t.
func newAgent(t *testing.T, parts table) *Agent {
	t.Helper()
	ctx, db := t.Context(), mem.New()
	ring, err := identity.RingFromFile(ctx, store.Sub(db, "ring/"), filepath.Join(t.TempDir(), "key"))
	if err != nil {
		t.Fatal(err)
	}
	house := &House{
		Life: ctx, Ring: ring, Now: time.Now, Happened: func(string, []byte) {},
		Due: func(context.Context, store.Store, string, ticks.Due) error { return nil },
	}
	st := store.Sub(db, "a/")
	if err := db.Update(ctx, func(tx store.Store) error { return Create(ctx, store.In(tx, st), st, house, "alice") }); err != nil {
		t.Fatal(err)
	}
	a, err := open(ctx, st, house, "alice", "1", parts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(context.Background()) })
	return a
}

// motto is a service that is nothing but a package.
type motto struct {
	st     store.Updater
	note   store.Note
	ended  bool
	closed bool
}

func (m *motto) Root() fsys.Node {
	return &fsys.Doc{
		Load: func(ctx context.Context) ([]byte, error) { return get(ctx, m.st) },
		Save: func(ctx context.Context, b []byte) error {
			return m.st.Update(ctx, func(tx store.Store) error {
				if err := tx.Put(ctx, "text", b); err != nil {
					return err
				}
				return m.note.Record(tx, "motto.changed", nil)
			})
		},
	}
}

func get(ctx context.Context, st store.Store) ([]byte, error) {
	b, err := st.Get(ctx, "text")
	if fsys.CodeOf(err) == fsys.NotExist && err != nil {
		return []byte("{}\n"), nil
	}
	return b, err
}

func (m *motto) End() { m.ended = true }

func (m *motto) Close(context.Context) error { m.closed = true; return nil }

// A part of an agent is a package and a row.
func TestANewPartIsARow(t *testing.T) {
	const said = `{"motto": "hold fast"}` + "\n"
	ctx := t.Context()
	var m *motto
	a := newAgent(t, append(parts(), part{
		name: "motto", mounts: []mount{{path: "/motto"}},
		open: func(_ context.Context, e Env) (opened, error) {
			m = &motto{st: e.Store, note: e.Note}
			return opening(m, nil)
		},
	}))
	if err := fsys.WriteFile(ctx, a.Self(), "motto", []byte(said)); err != nil {
		t.Fatal(err)
	}
	if b, err := fsys.ReadFile(ctx, a.Operator(), "motto"); err != nil || string(b) != said {
		t.Errorf("it reads as %q, %v", b, err)
	}
	if b, err := fsys.ReadFile(ctx, a.Self(), "mounts"); err != nil || !strings.Contains(string(b), "/motto\tmotto\tfull\n") {
		t.Errorf("the mounts are %s, %v", b, err)
	}
	if b, err := a.st.Get(ctx, "motto/text"); err != nil || string(b) != said {
		t.Errorf("its part of the store has %q, %v", b, err)
	}
	if a.Close(ctx); !m.closed {
		t.Error("it was not closed with the agent")
	}
	if a.Remove(); !m.ended {
		t.Error("it did not end with the agent")
	}
}

func TestPartsEndBeforeWhatDoesTheirWork(t *testing.T) {
	all, names := parts(), []string{}
	for i := range all.ending() {
		names = append(names, all[i].name)
	}
	if len(names) != len(all) {
		t.Fatalf("%d of %d parts end", len(names), len(all))
	}
	for _, p := range all {
		if slices.Index(names, "sessions") > slices.Index(names, p.name) || slices.Index(names, "logs") < slices.Index(names, p.name) {
			t.Errorf("%s ends in %v; sessions give work to others, and all of it is in the logs", p.name, names)
		}
	}
}

func TestEachPartHasMountsAndRoots(t *testing.T) {
	a := newAgent(t, parts())
	for i, p := range a.table {
		if len(a.opened[i].roots) != len(p.mounts) {
			t.Errorf("%s has %d roots for %d mounts", p.name, len(a.opened[i].roots), len(p.mounts))
		}
	}
}
