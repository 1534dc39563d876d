package namespace_test

import (
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"agent9/fsys"
	"agent9/namespace"
	"agent9/store/files"
	"agent9/store/mem"
)

// stored returns a writable tree that has a file or a directory at each path:
// one that ends with a slash is a directory.
func stored(t *testing.T, paths ...string) fsys.FileService {
	t.Helper()
	tree, err := files.New(t.Context(), mem.New(), files.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		dir := tree.Root()
		names := strings.Split(strings.TrimSuffix(path, "/"), "/")
		for i, name := range names {
			next, err := fsys.Walk(t.Context(), dir, name)
			switch {
			case err == nil:
			case i == len(names)-1 && !strings.HasSuffix(path, "/"):
				var h fsys.Handle
				if next, h, err = fsys.Create(t.Context(), dir, name, 0o666, fsys.Write); err == nil {
					h.Close()
				}
			default:
				next, err = fsys.Mkdir(t.Context(), dir, name, 0o777)
			}
			if err != nil {
				t.Fatal(path, err)
			}
			dir = next
		}
	}
	return tree
}

func TestWhatAHiddenMountCoversIsNotReached(t *testing.T) {
	level := namespace.Disabled
	var ns namespace.Namespace
	below := stored(t, "policy", "other", "deep/er/file")
	for path, level := range map[string]func() namespace.Level{
		"/": func() namespace.Level { return namespace.Full }, "/policy": func() namespace.Level { return level },
		"/deep/er": func() namespace.Level { return level },
		"/fresh":   func() namespace.Level { return level }, // below has nothing there
	} {
		svc := below
		if path != "/" {
			svc = stored(t, "file")
		}
		if err := ns.Mount(path, svc, namespace.Access(level)); err != nil {
			t.Fatal(err)
		}
	}
	root, ctx := ns.Root(), t.Context()
	for _, path := range []string{"policy", "deep/er", "deep/er/file"} {
		if _, err := fsys.WalkPath(ctx, root, path); fsys.CodeOf(err) != fsys.NotExist || err == nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	if got := names(t, root, ""); !slices.Equal(got, []string{"deep", "other"}) {
		t.Errorf("the root has %v", got)
	}
	deep, err := fsys.Walk(ctx, root, "deep")
	if err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"create":            second(fsys.OpenCreate(ctx, root, "policy", 0o666, fsys.Write)),
		"mkdir":             first(fsys.Mkdir(ctx, root, "policy", 0o777)),
		"over":              fsys.Rename(ctx, root, "other", "policy"),
		"from":              fsys.Rename(ctx, root, "policy", "mine"),
		"anew":              second(fsys.OpenCreate(ctx, root, "fresh", 0o666, fsys.Write)),
		"anew, a directory": first(fsys.Mkdir(ctx, root, "fresh", 0o777)),
		"to nothing":        fsys.Rename(ctx, root, "other", "fresh"),
		"around":            fsys.Rename(ctx, root, "deep", "mine"),
		"above":             fsys.Remove(ctx, deep),
		"in":                first(fsys.Mkdir(ctx, deep, "er", 0o777)),
	} {
		if err == nil {
			t.Errorf("%s was allowed", what)
		}
	}
	level = namespace.Full
	if got := content(t, root, "policy/file"); got != "" {
		t.Errorf("after it is shown again: %q", got)
	}
}

func first[A any](_ A, err error) error          { return err }
func second[A, B any](_ A, _ B, err error) error { return err }

// Random tables of mounts, of which some are hidden, and random changes: what
// is stored below the path of a mount by another one is never reached and
// never changes.
func TestNothingShowsThroughAHiddenMount(t *testing.T) {
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 13))
		var ns namespace.Namespace
		var paths []string // every path there can be
		for _, a := range "ab" {
			for _, b := range "ab" {
				for _, c := range "ab" {
					paths = append(paths, fmt.Sprintf("%c/%c/%c/f", a, b, c))
				}
			}
		}
		level := map[string]namespace.Level{}
		trees := map[string]fsys.FileService{}
		for _, path := range []string{"", "a", "b", "a/a", "a/b", "b/b", "a/a/a", "b/a/b", "b/a"} {
			if path != "" && rnd.IntN(2) == 0 {
				continue
			}
			// Each has all paths, so that whatever is uncovered is there to be seen.
			level[path], trees[path] = namespace.Full, stored(t, paths...)
			err := ns.Mount(path, trees[path], namespace.Access(func() namespace.Level { return level[path] }))
			if err != nil {
				t.Fatal(err)
			}
		}
		before := map[string]string{}
		for path, tree := range trees {
			before[path] = covered(t, level, path, tree)
		}
		for range 60 {
			for path := range level {
				level[path] = []namespace.Level{namespace.Full, namespace.Full, namespace.ReadOnly, namespace.Disabled}[rnd.IntN(4)]
			}
			disturb(t.Context(), rnd, ns.Root())
			visible(t, &ns, level, "", ns.Root())
		}
		for path, tree := range trees {
			if got := covered(t, level, path, tree); got != before[path] {
				t.Fatalf("seed %d: what is covered below /%s was %s and is %s", seed, path, before[path], got)
			}
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// visible checks that each mount's path is there if and only if the mount, or
// one below it, is shown.
func visible(t *testing.T, ns *namespace.Namespace, level map[string]namespace.Level, path string, n fsys.Node) {
	t.Helper()
	for mount := range level {
		shown := slices.ContainsFunc(ns.Mounts(), func(m namespace.Mount) bool {
			return m.Path == "/"+mount || strings.HasPrefix(m.Path, "/"+mount+"/")
		})
		if _, err := fsys.WalkPath(t.Context(), n, mount); (err == nil) != (shown || mount == "") {
			t.Errorf("/%s, which is shown: %v, was reached with %v", mount, shown, err)
		}
	}
}

// covered is all that tree, which is mounted at path, has at the paths of
// other mounts.
func covered(t *testing.T, mounts map[string]namespace.Level, path string, tree fsys.FileService) string {
	t.Helper()
	var b strings.Builder
	for _, other := range slices.Sorted(func(yield func(string) bool) {
		for m := range mounts {
			if !yield(m) {
				return
			}
		}
	}) {
		rest, ok := strings.CutPrefix(other+"/", path+"/")
		if path == "" {
			rest, ok = other+"/", true
		}
		if n, err := fsys.WalkPath(t.Context(), tree.Root(), rest); ok && other != path && err == nil {
			b.WriteString(other + ": " + all(t, n, "") + "\n")
		}
	}
	return b.String()
}

func all(t *testing.T, n fsys.Node, path string) string {
	t.Helper()
	info, err := n.Stat(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if info.Kind != fsys.Directory {
		return path + "=" + content(t, n, "") + fmt.Sprint(info.Version) + " "
	}
	list, err := fsys.List(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	text := ""
	for _, e := range list {
		text += all(t, e.Node, path+"/"+e.Name)
	}
	return path + "/ " + text
}

// disturb does something to the tree, by way of walks and lists.
func disturb(ctx context.Context, rnd *rand.Rand, n fsys.Node) {
	name := func() string { return []string{"a", "b", "f", "g"}[rnd.IntN(4)] }
	for range rnd.IntN(4) {
		if rnd.IntN(3) == 0 {
			if list, err := fsys.List(ctx, n); err == nil && len(list) > 0 {
				n = list[rnd.IntN(len(list))].Node
			}
		} else if next, err := fsys.Walk(ctx, n, name()); err == nil {
			n = next
		}
	}
	switch rnd.IntN(6) {
	case 0:
		if _, h, err := fsys.OpenCreate(ctx, n, name(), 0o666, fsys.Write|fsys.Trunc); err == nil {
			fsys.WriteAt(ctx, h, []byte("x"), 0)
			fsys.Finish(ctx, h)
		}
	case 1:
		fsys.Mkdir(ctx, n, name(), 0o777)
	case 2:
		fsys.Rename(ctx, n, name(), name())
	case 3:
		fsys.Remove(ctx, n)
	case 4:
		fsys.Truncate(ctx, n, 0)
	case 5:
		perm := fs.FileMode(0o600)
		fsys.SetAttr(ctx, n, fsys.Attr{Perm: &perm})
		fsys.WriteFile(ctx, n, "", []byte("y"))
	}
}

// A handle is of use only as long as what it was opened for is allowed.
func TestAnOpenHandleDoesNotOutliveItsRight(t *testing.T) {
	level, ctx := namespace.Full, t.Context()
	var done []string
	call := &fsys.Call{Do: func(_ context.Context, req []byte) ([]byte, error) {
		done = append(done, string(req))
		return nil, nil
	}}
	var over error
	ns := namespace.Namespace{Over: func() error { return over }}
	if err := ns.Mount("/new", one{call}, namespace.Access(func() namespace.Level { return level })); err != nil {
		t.Fatal(err)
	}
	end := map[string]func(){
		"read-only": func() { level = namespace.ReadOnly },
		"disabled":  func() { level = namespace.Disabled },
		"over":      func() { over = fsys.E(fsys.Permission, "it is over") },
	}
	for what, ends := range end {
		level, over, done = namespace.Full, nil, nil
		h, err := fsys.OpenPath(ctx, ns.Root(), "new", fsys.Read|fsys.Write)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fsys.WriteAt(ctx, h, []byte("gathered"), 0); err != nil {
			t.Fatal(err)
		}
		ends()
		if _, err := fsys.ReadAt(ctx, h, make([]byte, 9), 0); err == nil {
			t.Errorf("%s: it could be read", what)
		}
		if _, err := fsys.WriteAt(ctx, h, []byte("more"), 0); err == nil {
			t.Errorf("%s: it could be written", what)
		}
		if err := fsys.Finish(ctx, h); err == nil {
			t.Errorf("%s: it ended in order", what)
		}
		level, over = namespace.Full, nil
		if len(done) > 0 {
			t.Errorf("%s: %q acted", what, done)
		}
	}
}

type one struct{ node fsys.Node }

func (o one) Root() fsys.Node { return o.node }
