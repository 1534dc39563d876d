package goals_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"agent9/fsys"
	"agent9/fsys/fstest"
	"agent9/services/goals"
	"agent9/store"
	"agent9/store/mem"
)

func TestGoals(t *testing.T) {
	ctx := fsys.WithCaller(t.Context(), "alice")
	st := mem.New()
	var events []string
	tree, err := goals.New(ctx, st, func(_ store.Store, event string, detail any) error {
		b, err := json.Marshal(detail)
		events = append(events, event+" "+string(b))
		return err
	}, nil)
	require.NoError(t, err)
	root := tree.Root()
	write := func(dir fsys.Node, name, text string) {
		t.Helper()
		_, h, err := fsys.OpenCreate(ctx, dir, name, 0o644, fsys.Write|fsys.Trunc)
		require.NoError(t, err)
		for i := range len(text) {
			_, err = fsys.WriteAt(t.Context(), h, []byte{text[i]}, int64(i))
			require.NoError(t, err)
		}
		require.NoError(t, fsys.Finish(t.Context(), h))
	}
	write(root, "ship", "Ship it.\n")
	sub, err := fsys.Mkdir(ctx, root, "learn", 0o755)
	require.NoError(t, err)
	write(sub, "go.json", `{"level": 2}`)
	require.NoError(t, fsys.Rename(ctx, sub, "go.json", "golang.json"))
	n, err := fsys.Walk(ctx, root, "ship")
	require.NoError(t, err)
	require.NoError(t, fsys.Remove(ctx, n))
	require.Equal(t, []string{
		`goal.created {"goal":"ship","size":0,"by":"alice"}`,
		`goal.changed {"goal":"ship","size":9,"by":"alice"}`,
		`goal.created {"goal":"learn","dir":true,"size":0,"by":"alice"}`,
		`goal.created {"goal":"learn/go.json","size":0,"by":"alice"}`,
		`goal.changed {"goal":"learn/go.json","size":12,"by":"alice"}`,
		`goal.renamed {"goal":"learn/go.json","to":"learn/golang.json","size":12,"by":"alice"}`,
		`goal.removed {"goal":"ship","size":9,"by":"alice"}`,
	}, events)

	again, err := goals.New(ctx, st, nil, nil)
	require.NoError(t, err)
	b, err := fsys.ReadFile(ctx, again.Root(), "learn/golang.json")
	require.NoError(t, err)
	require.Equal(t, `{"level": 2}`, string(b))
	require.NoError(t, fstest.CheckTree(ctx, again.Root(), "learn/golang.json"))
}
