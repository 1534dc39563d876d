package namespace_test

import (
	"context"
	"io/fs"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agent9/fsys"
	"agent9/fsys/fstest"
	"agent9/namespace"
)

func names(t *testing.T, n fsys.Node, path string) []string {
	t.Helper()
	d, err := fsys.WalkPath(t.Context(), n, path)
	require.NoError(t, err)
	list, err := fsys.List(t.Context(), d)
	require.NoError(t, err)
	all := []string{}
	for _, e := range list {
		all = append(all, e.Name)
	}
	return all
}

func content(t *testing.T, n fsys.Node, path string) string {
	t.Helper()
	b, err := fsys.ReadFile(t.Context(), n, path)
	require.NoError(t, err, path)
	return string(b)
}

// tree returns a directory whose files hold their own names.
func tree(files ...string) *fsys.Table {
	var entries []fsys.Entry
	for _, f := range files {
		entries = append(entries, fsys.Entry{Name: f, Node: fsys.Const(f + "\n")})
	}
	return fsys.NewTable(entries...)
}

func TestTheLongestPrefixWins(t *testing.T) {
	var ns namespace.Namespace
	require.NoError(t, ns.Mount("/", fsys.NewTable(
		fsys.Entry{Name: "top", Node: fsys.Const("top\n")},
		fsys.Entry{Name: "a", Node: tree("x", "y")},
	)))
	require.NoError(t, ns.Mount("/a/x", tree("inner")))
	require.NoError(t, ns.Mount("a/deep/er", tree("z")))
	root := ns.Root()
	require.Equal(t, []string{"top", "a"}, names(t, root, ""))
	require.Equal(t, []string{"x", "y", "deep"}, names(t, root, "a"))
	require.Equal(t, "inner\n", content(t, root, "a/x/inner"), "a mount hides what is under it")
	require.Equal(t, "y\n", content(t, root, "a/y"))
	require.Equal(t, []string{"er"}, names(t, root, "a/deep"), "a directory that exists only because of a mount")
	require.Equal(t, "z\n", content(t, root, "a/deep/er/z"))
	_, err := fsys.WalkPath(t.Context(), root, "a/deep/no")
	require.ErrorIs(t, err, fsys.NotExist)
	require.NoError(t, fstest.CheckTree(t.Context(), root, "a/deep/er/z", "a/x/inner"))

	require.ErrorIs(t, ns.Mount("/a/x/", tree()), fsys.Exist)
	require.ErrorIs(t, ns.Mount("/a/../b", tree()), fsys.Invalid)
	require.ErrorIs(t, ns.Unmount("/a/nothing"), fsys.NotExist)

	walked, err := fsys.WalkPath(t.Context(), root, "a/x/inner")
	require.NoError(t, err)
	require.NoError(t, ns.Unmount("/a/x"))
	_, err = walked.Open(t.Context(), fsys.Read)
	require.ErrorIs(t, err, fsys.NotExist, "what was walked to is not there any longer")
	require.Equal(t, "x\n", content(t, root, "a/x"), "what was under the mount is back")
	require.NoError(t, ns.Unmount("/a/deep/er"))
	require.Equal(t, []string{"x", "y"}, names(t, root, "a"))
}

func TestANamespaceMountsInAnother(t *testing.T) {
	var inner, outer namespace.Namespace
	require.NoError(t, inner.Mount("/s", tree("f")))
	require.NoError(t, outer.Mount("/agents/alice", &inner))
	require.Equal(t, "f\n", content(t, outer.Root(), "agents/alice/s/f"))
}

// everything is a directory in which every operation works and is counted.
type everything struct {
	fsys.Node
	did    map[string]int
	effect fsys.Effect
}

func (e everything) Root() fsys.Node { return e }
func (e everything) Stat(context.Context) (fsys.Info, error) {
	return fsys.Info{Kind: fsys.Directory, Effect: e.effect}, nil
}
func (e everything) Open(_ context.Context, f fsys.Flag) (fsys.Handle, error) {
	e.did["open"]++
	return anyHandle{e}, nil
}
func (e everything) Walk(_ context.Context, name string) (fsys.Node, error) { return e, nil }
func (e everything) List(context.Context) ([]fsys.Entry, error) {
	e.did["list"]++
	return []fsys.Entry{{Name: "x", Node: e}}, nil
}
func (e everything) Create(context.Context, string, fs.FileMode, fsys.Flag) (fsys.Node, fsys.Handle, error) {
	e.did["create"]++
	return e, anyHandle{e}, nil
}
func (e everything) Mkdir(context.Context, string, fs.FileMode) (fsys.Node, error) {
	e.did["mkdir"]++
	return e, nil
}
func (e everything) Rename(context.Context, string, string) error { e.did["rename"]++; return nil }
func (e everything) Remove(context.Context) error                 { e.did["remove"]++; return nil }
func (e everything) Truncate(context.Context, int64) error        { e.did["truncate"]++; return nil }
func (e everything) SetAttr(context.Context, fsys.Attr) error     { e.did["setattr"]++; return nil }

type anyHandle struct{ e everything }

func (h anyHandle) Close() error { h.e.did["close"]++; return nil }
func (h anyHandle) ReadAt(context.Context, []byte, int64) (int, error) {
	h.e.did["read"]++
	return 1, nil
}
func (h anyHandle) WriteAt(context.Context, []byte, int64) (int, error) {
	h.e.did["write"]++
	return 1, nil
}
func (h anyHandle) Sync(context.Context) error { h.e.did["sync"]++; return nil }

// use tries everything on n and returns what was refused.
func use(t *testing.T, n fsys.Node) (refused []string) {
	ctx := t.Context()
	n, err := fsys.Walk(ctx, n, "x")
	require.NoError(t, err)
	try := func(op string, err error) {
		if err != nil {
			require.ErrorIs(t, err, fsys.Permission)
			refused = append(refused, op)
		}
	}
	open := func(op string, f fsys.Flag) {
		h, err := n.Open(ctx, f)
		try(op, err)
		if err != nil {
			return
		}
		if f&fsys.Read != 0 {
			_, err = fsys.ReadAt(ctx, h, make([]byte, 1), 0)
			require.NoError(t, err)
		}
		if f&fsys.Write != 0 {
			_, err = fsys.WriteAt(ctx, h, make([]byte, 1), 0)
			require.NoError(t, err)
			require.NoError(t, fsys.Sync(ctx, h))
		}
		require.NoError(t, h.Close())
	}
	_, err = n.Stat(ctx)
	try("stat", err)
	open("read", fsys.Read)
	open("write", fsys.Write)
	open("both", fsys.Read|fsys.Write)
	_, err = fsys.List(ctx, n)
	try("list", err)
	_, _, err = fsys.Create(ctx, n, "f", 0, fsys.Write)
	try("create", err)
	_, err = fsys.Mkdir(ctx, n, "f", 0)
	try("mkdir", err)
	try("rename", fsys.Rename(ctx, n, "f", "g"))
	try("remove", fsys.Remove(ctx, n))
	try("truncate", fsys.Truncate(ctx, n, 0))
	try("setattr", fsys.SetAttr(ctx, n, fsys.Attr{}))
	return refused
}

func TestLevels(t *testing.T) {
	changes := []string{"create", "mkdir", "rename", "remove", "setattr"}
	writing := []string{"write", "both", "create", "mkdir", "rename", "remove", "truncate", "setattr"}
	for _, tc := range []struct {
		level   namespace.Level
		effect  fsys.Effect
		refused []string
	}{
		{namespace.Full, fsys.Changes, nil},
		{namespace.ReadOnly, fsys.Changes, writing},
		{namespace.ReadOnly, fsys.Spends, writing},
		{namespace.ReadOnly, fsys.Signs, writing},
		{namespace.ReadOnly, fsys.Computes, changes},
		{namespace.SignOnly, fsys.Signs, changes},
		{namespace.SignOnly, fsys.Changes, writing},
		{namespace.NoRead, fsys.Changes, []string{"read", "both", "list"}},
	} {
		var ns namespace.Namespace
		var told []string
		ns.Refused = func(_ context.Context, path, op string, _ error) { told = append(told, path+" "+op) }
		svc := everything{did: map[string]int{}, effect: tc.effect}
		require.NoError(t, ns.Mount("/m", svc, namespace.Always(tc.level)))
		m, err := fsys.Walk(t.Context(), ns.Root(), "m")
		require.NoError(t, err)
		refused := use(t, m)
		require.ElementsMatch(t, tc.refused, refused, "%s, effect %d", tc.level, tc.effect)
		require.Len(t, told, len(refused), "every refusal is told: %v", told)
		if tc.level == namespace.Full {
			for _, op := range []string{"open", "read", "write", "sync", "close", "list", "create", "mkdir", "rename", "remove", "truncate", "setattr"} {
				require.NotZero(t, svc.did[op], "the guard lost %s", op)
			}
		}
	}
}

// Who waits for a stream no longer than he wants to is not refused anything;
// what a service did not do in time is.
func TestAWaitThatIsOverIsNoRefusal(t *testing.T) {
	var ns namespace.Namespace
	var told []string
	ns.Refused = func(_ context.Context, path, op string, _ error) { told = append(told, path+" "+op) }
	require.NoError(t, ns.Mount("/m", service{fsys.NewTable(fsys.Entry{Name: "s", Node: fsys.NewTape(new(fsys.Memory))}, fsys.Entry{Name: "late", Node: late{}})}))
	for path, refused := range map[string]int{"m/s": 0, "m/late": 1} {
		told = nil
		h, err := fsys.OpenPath(t.Context(), ns.Root(), path, fsys.Read)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, fsys.E(fsys.Timeout, "nothing came"))
		if path == "m/late" {
			ctx = t.Context()
		}
		_, err = fsys.ReadAt(ctx, h, make([]byte, 1), 0)
		cancel()
		require.ErrorIs(t, err, fsys.Timeout)
		require.Len(t, told, refused, "%s: %v", path, told)
	}
}

// late is a file that a service cannot read in time.
type late struct{}

func (late) Stat(context.Context) (fsys.Info, error) { return fsys.Info{Perm: 0o444}, nil }

func (late) Open(context.Context, fsys.Flag) (fsys.Handle, error) { return late{}, nil }

func (late) Close() error { return nil }

func (late) ReadAt(context.Context, []byte, int64) (int, error) {
	return 0, fsys.E(fsys.Timeout, "the disk does not answer")
}

type service struct{ root fsys.Node }

func (s service) Root() fsys.Node { return s.root }

func TestDisabledMountsAreNotThere(t *testing.T) {
	var ns namespace.Namespace
	level := namespace.Full
	require.NoError(t, ns.Mount("/m", tree("f"), namespace.Access(func() namespace.Level { return level })))
	require.NoError(t, ns.Mount("/n", tree("g")))
	walked, err := fsys.WalkPath(t.Context(), ns.Root(), "m/f")
	require.NoError(t, err)
	require.Len(t, ns.Mounts(), 2)
	level = namespace.Disabled
	require.Equal(t, []string{"n"}, names(t, ns.Root(), ""))
	require.Len(t, ns.Mounts(), 1)
	_, err = fsys.Walk(t.Context(), ns.Root(), "m")
	require.ErrorIs(t, err, fsys.NotExist)
	_, err = walked.Open(t.Context(), fsys.Read)
	require.ErrorIs(t, err, fsys.NotExist, "also what was walked to before")
	level = namespace.ReadOnly
	require.Equal(t, []namespace.Mount{{Path: "/m", Access: "read-only"}, {Path: "/n"}}, ns.Mounts())
	require.Equal(t, "f\n", content(t, ns.Root(), "m/f"))
}

func TestAGateAddsToTheContextOfAHandle(t *testing.T) {
	type key struct{}
	var ns namespace.Namespace
	var saw any
	call := &fsys.Call{Do: func(ctx context.Context, _ []byte) ([]byte, error) {
		saw = ctx.Value(key{})
		return nil, nil
	}}
	asked := 0
	gate := namespace.Gated(func() string { return "test" }, func(ctx context.Context, _ namespace.Op, _ fsys.Effect) (context.Context, error) {
		asked++
		return context.WithValue(ctx, key{}, "paid"), nil
	})
	require.NoError(t, ns.Mount("/", fsys.NewTable(fsys.Entry{Name: "new", Node: call}), gate))
	h, err := fsys.OpenPath(t.Context(), ns.Root(), "new", fsys.Write)
	require.NoError(t, err)
	before := asked
	_, err = fsys.WriteAt(t.Context(), h, []byte("{}"), 0)
	require.NoError(t, err)
	require.Equal(t, "paid", saw)
	require.Equal(t, before, asked, "a write does not ask the gate again")
}

func TestMountPointsStay(t *testing.T) {
	var ns namespace.Namespace
	svc := everything{did: map[string]int{}}
	require.NoError(t, ns.Mount("/", svc))
	require.NoError(t, ns.Mount("/m", tree("f")))
	ctx, root := t.Context(), ns.Root()
	require.ErrorIs(t, fsys.Rename(ctx, root, "m", "n"), fsys.Permission)
	require.ErrorIs(t, fsys.Rename(ctx, root, "n", "m"), fsys.Permission)
	require.ErrorIs(t, fsys.Remove(ctx, root), fsys.Permission)
	_, err := fsys.Mkdir(ctx, root, "m", 0o755)
	require.ErrorIs(t, err, fsys.Exist)
	_, err = fsys.Mkdir(ctx, root, "other", 0o755)
	require.NoError(t, err, "what is under the mounts can be used")
}

// taker is a file that gives what it holds once.
type taker struct{ fsys.Node }

func (taker) Takes() bool { return true }

func TestTakingIsAChange(t *testing.T) {
	take := tree("x")
	for _, c := range []struct {
		level namespace.Level
		want  error
	}{
		{namespace.Full, nil},
		{namespace.ReadOnly, fsys.Permission},
		{namespace.SignOnly, fsys.Permission},
		{namespace.NoRead, fsys.Permission},
	} {
		var inner, ns namespace.Namespace
		require.NoError(t, inner.Mount("/q", tableOf("next", taker{take})))
		require.NoError(t, ns.Mount("/", &inner, namespace.Always(c.level)))
		n, err := fsys.WalkPath(t.Context(), ns.Root(), "q/next")
		require.NoError(t, err)
		_, err = n.Open(t.Context(), fsys.Read)
		require.ErrorIs(t, err, c.want, "level %q", c.level)
	}
}

func tableOf(name string, n fsys.Node) *fsys.Table {
	return fsys.NewTable(fsys.Entry{Name: name, Node: n})
}

func TestTheEndOfANamespace(t *testing.T) {
	ended := false
	ns := namespace.Namespace{Over: func() error {
		if ended {
			return fsys.NotExist
		}
		return nil
	}}
	require.NoError(t, ns.Mount("/a", tree("x")))
	walked, err := fsys.WalkPath(t.Context(), ns.Root(), "a/x")
	require.NoError(t, err)
	open, err := walked.Open(t.Context(), fsys.Read)
	require.NoError(t, err)
	_, err = fsys.ReadAll(t.Context(), open)
	require.NoError(t, err)

	ended = true
	_, err = walked.Stat(t.Context())
	require.ErrorIs(t, err, fsys.NotExist)
	_, err = walked.Open(t.Context(), fsys.Read)
	require.ErrorIs(t, err, fsys.NotExist)
	_, err = fsys.ReadAll(t.Context(), open)
	require.ErrorIs(t, err, fsys.NotExist)
	require.NoError(t, open.Close())
	_, err = fsys.WalkPath(t.Context(), ns.Root(), "a")
	require.ErrorIs(t, err, fsys.NotExist)
	require.Empty(t, names(t, ns.Root(), ""))
	require.Empty(t, ns.Mounts())
}

// What a program finds out by trying, as editors and crawlers do, is no
// refusal; what somebody asked for is.
func TestTryingIsNoRefusal(t *testing.T) {
	var ns namespace.Namespace
	var told []string
	ns.Refused = func(_ context.Context, path, op string, _ error) { told = append(told, op+" "+path) }
	secret := fsys.NewTable(fsys.Entry{Name: "key", Node: unreadable{}}, fsys.Entry{Name: "new", Node: &fsys.Call{}}, fsys.Entry{Name: "text", Node: fsys.Const("x\n")})
	require.NoError(t, ns.Mount("/m", secret))
	require.NoError(t, ns.Mount("/ro", tree("f"), namespace.Always(namespace.ReadOnly)))
	at := func(path string) fsys.Node {
		n, err := fsys.WalkPath(t.Context(), ns.Root(), path)
		require.NoError(t, err)
		return n
	}
	create := func(dir, name string, flag fsys.Flag) {
		_, _, err := fsys.Create(t.Context(), at(dir), name, 0o600, flag)
		require.ErrorIs(t, err, fsys.Permission)
	}
	for _, dir := range []string{"", "m", "ro"} {
		create(dir, ".f.swp", fsys.Read|fsys.Write|fsys.Excl)
	}
	_, err := at("m/key").Open(t.Context(), fsys.Read)
	require.ErrorIs(t, err, fsys.Permission)
	b, err := fsys.ReadFile(t.Context(), at("m"), "new")
	require.NoError(t, err)
	require.Empty(t, b)
	require.ErrorIs(t, fsys.SetAttr(t.Context(), at("m/text"), fsys.Attr{}), fsys.Unsupported)
	_, err = at("m").Open(t.Context(), fsys.Write)
	require.ErrorIs(t, err, fsys.IsDir)
	require.Empty(t, told)

	for _, dir := range []string{"", "m", "ro"} {
		create(dir, "note", fsys.Write|fsys.Trunc|fsys.Excl)
		create(dir, "note", fsys.Write)
	}
	_, err = at("m/text").Open(t.Context(), fsys.Write)
	require.ErrorIs(t, err, fsys.Permission)
	_, err = at("m/key").Open(t.Context(), fsys.Read|fsys.Write)
	require.ErrorIs(t, err, fsys.Permission)
	require.Equal(t, []string{"create /note", "create /note", "create /m/note", "create /m/note", "create /ro/note", "create /ro/note",
		"open /m/text", "open /m/key"}, told)
}

// unreadable is a file whose mode says that nobody reads it.
type unreadable struct{}

func (unreadable) Stat(context.Context) (fsys.Info, error) {
	return fsys.Info{Kind: fsys.Message, Perm: 0o200}, nil
}

func (unreadable) Open(context.Context, fsys.Flag) (fsys.Handle, error) {
	return nil, fsys.E(fsys.Permission, "it cannot be read")
}
