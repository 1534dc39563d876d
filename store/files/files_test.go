package files_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agent9/fsys"
	"agent9/fsys/fstest"
	"agent9/store"
	"agent9/store/files"
	"agent9/store/mem"
)

// disk is a tree that a test works on.
type disk struct {
	t    *testing.T
	st   store.Updater
	tree *files.Tree
}

func newDisk(t *testing.T, opt files.Options) *disk {
	d := &disk{t: t, st: mem.New()}
	d.start(opt)
	return d
}

// start makes the tree anew from the store, as after a crash.
func (d *disk) start(opt files.Options) {
	tree, err := files.New(d.t.Context(), d.st, opt)
	require.NoError(d.t, err)
	d.tree = tree
}

func (d *disk) open(path string, flag fsys.Flag) fsys.Handle {
	d.t.Helper()
	dir, name := d.split(path)
	_, h, err := fsys.OpenCreate(d.t.Context(), dir, name, 0o644, flag)
	require.NoError(d.t, err)
	return h
}

func (d *disk) split(path string) (dir fsys.Node, name string) {
	d.t.Helper()
	in, name := "", path
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		in, name = path[:i], path[i+1:]
	}
	dir, err := fsys.WalkPath(d.t.Context(), d.tree.Root(), in)
	require.NoError(d.t, err)
	return dir, name
}

func (d *disk) put(path, content string) {
	d.t.Helper()
	h := d.open(path, fsys.Write|fsys.Trunc)
	d.write(h, content, 0)
	require.NoError(d.t, fsys.Finish(d.t.Context(), h))
}

func (d *disk) write(h fsys.Handle, content string, off int64) {
	d.t.Helper()
	n, err := fsys.WriteAt(d.t.Context(), h, []byte(content), off)
	require.NoError(d.t, err)
	require.Equal(d.t, len(content), n)
}

func (d *disk) read(path string) string {
	d.t.Helper()
	b, err := fsys.ReadFile(d.t.Context(), d.tree.Root(), path)
	require.NoError(d.t, err)
	return string(b)
}

func (d *disk) node(path string) fsys.Node {
	d.t.Helper()
	n, err := fsys.WalkPath(d.t.Context(), d.tree.Root(), path)
	require.NoError(d.t, err)
	return n
}

func (d *disk) stat(path string) fsys.Info {
	d.t.Helper()
	info, err := d.node(path).Stat(d.t.Context())
	require.NoError(d.t, err)
	return info
}

func (d *disk) mkdir(path string) {
	d.t.Helper()
	dir, name := d.split(path)
	_, err := fsys.Mkdir(d.t.Context(), dir, name, 0o755)
	require.NoError(d.t, err)
}

func (d *disk) remove(path string) error { return fsys.Remove(d.t.Context(), d.node(path)) }

func (d *disk) rename(from, to string) error {
	return fsys.Rename(d.t.Context(), d.tree.Root(), from, to)
}

func (d *disk) names(path string) string {
	d.t.Helper()
	list, err := fsys.List(d.t.Context(), d.node(path))
	require.NoError(d.t, err)
	var names []string
	for _, e := range list {
		names = append(names, e.Name)
	}
	return strings.Join(names, " ")
}

// empty checks that no key is left but those of an empty tree.
func (d *disk) empty() {
	d.t.Helper()
	bytes, entries, err := d.tree.Usage(d.t.Context())
	require.NoError(d.t, err)
	require.Zero(d.t, bytes)
	require.Zero(d.t, entries)
	for p, err := range store.All(d.t.Context(), d.st, "") {
		require.NoError(d.t, err)
		if p.Key != "u" && !strings.HasPrefix(p.Key, "i/") || strings.HasPrefix(p.Key, "i/") && p.Key[len(p.Key)-2:] != "01" {
			d.t.Errorf("left behind: %s", p.Key)
		}
	}
}

// A file does what a byte slice does, whatever is written, cut or extended.
func TestFileIsItsBytes(t *testing.T) {
	ctx, d := t.Context(), newDisk(t, files.Options{})
	rnd := rand.New(rand.NewPCG(1, 2))
	h := d.open("f", fsys.Read|fsys.Write)
	app := d.open("f", fsys.Write|fsys.Append)
	var want []byte
	version := d.stat("f").Version
	require.EqualValues(t, 1, version)
	for i := range 400 {
		p := make([]byte, 1+rnd.IntN(40_000))
		for j := range p {
			p[j] = byte(rnd.Uint32() | 1)
		}
		switch op := rnd.IntN(4); op {
		case 0, 1:
			off := rnd.Int64N(200_000)
			if op == 1 && len(want) > 0 {
				off = rnd.Int64N(int64(len(want)))
			}
			d.write(h, string(p), off)
			want = grown(want, int(off)+len(p))
			copy(want[off:], p)
		case 2:
			d.write(app, string(p), rnd.Int64N(100))
			want = append(want, p...)
		case 3:
			size := rnd.IntN(len(want) + 30_000)
			require.NoError(t, fsys.Truncate(ctx, d.node("f"), int64(size)))
			want = grown(want, size)[:size]
		}
		info := d.stat("f")
		require.EqualValues(t, len(want), info.Size)
		require.Equal(t, version+1, info.Version)
		version = info.Version
		off, got := rnd.Int64N(int64(len(want)+10)), make([]byte, 50_000)
		n, err := fsys.ReadAt(ctx, h, got, off)
		if off >= int64(len(want)) {
			require.ErrorIs(t, err, io.EOF)
			continue
		}
		require.NoError(t, err)
		require.True(t, bytes.Equal(got[:n], want[off:min(len(want), int(off)+len(got))]), "step %d: at %d", i, off)
	}
	d.start(files.Options{})
	require.True(t, bytes.Equal(want, []byte(d.read("f"))), "after a restart")
	require.NoError(t, d.remove("f"))
	d.empty()
}

func grown(b []byte, size int) []byte {
	if size <= len(b) {
		return b
	}
	return append(b, make([]byte, size-len(b))...)
}

func TestConcurrentAppendsAreEachWhole(t *testing.T) {
	ctx, d := t.Context(), newDisk(t, files.Options{})
	d.put("log", "")
	const writers, lines = 8, 40
	var wg sync.WaitGroup
	for w := range writers {
		h := d.open("log", fsys.Write|fsys.Append)
		wg.Go(func() {
			line := []byte(strings.Repeat(string(rune('a'+w)), 999) + "\n")
			for range lines {
				if _, err := fsys.WriteAt(ctx, h, line, 0); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	count := map[string]int{}
	for line := range strings.Lines(d.read("log")) {
		count[line]++
	}
	require.Len(t, count, writers)
	for line, n := range count {
		require.Len(t, line, 1000)
		require.Equal(t, lines, n)
	}
}

func TestNames(t *testing.T) {
	ctx, d := t.Context(), newDisk(t, files.Options{})
	root := d.tree.Root()
	d.put("b", "bee")
	d.put("a", "ay")
	d.mkdir("dir")
	d.mkdir("dir/sub")
	d.put("dir/sub/x", "1")
	require.Equal(t, "a b dir", d.names(""))
	require.Equal(t, "x", d.names("dir/sub"))
	require.NoError(t, fstest.CheckTree(ctx, root, "dir/sub/x"))

	_, _, err := fsys.Create(ctx, root, "a", 0o644, fsys.Write)
	require.ErrorIs(t, err, fsys.Exist)
	_, err = fsys.Mkdir(ctx, root, "a", 0o755)
	require.ErrorIs(t, err, fsys.Exist)
	require.ErrorIs(t, d.remove("dir"), fsys.NotEmpty)
	require.ErrorIs(t, fsys.Remove(ctx, root), fsys.Permission)
	require.ErrorIs(t, d.rename("none", "x"), fsys.NotExist)
	require.ErrorIs(t, d.rename("a", "dir"), fsys.IsDir)
	require.ErrorIs(t, d.rename("dir", "a"), fsys.NotDir)
	d.mkdir("full")
	d.put("full/y", "")
	require.ErrorIs(t, d.rename("dir", "full"), fsys.NotEmpty)
	require.NoError(t, d.remove("full/y"))
	require.NoError(t, d.rename("dir", "full"), "an empty directory is replaced")
	require.Equal(t, "1", d.read("full/sub/x"))

	gen := d.stat("a").Gen
	require.NoError(t, d.rename("a", "b"))
	require.Equal(t, "ay", d.read("b"))
	require.Equal(t, gen, d.stat("b").Gen, "a renamed file is the same file")
	require.NoError(t, d.rename("b", "b"))
	require.Equal(t, "b full", d.names(""))

	gone := d.node("full/sub")
	require.NoError(t, d.remove("full/sub/x"))
	require.NoError(t, d.remove("full/sub"))
	_, _, err = fsys.Create(ctx, gone, "late", 0o644, fsys.Write)
	require.ErrorIs(t, err, fsys.NotExist, "nothing is made in a directory that is gone")
	require.NoError(t, d.remove("full"))
	require.NoError(t, d.remove("b"))
	d.empty()
}

func TestRemovedWhileOpen(t *testing.T) {
	ctx, d := t.Context(), newDisk(t, files.Options{})
	d.put("f", "old")
	old := d.node("f")
	h, second := d.open("f", fsys.Read|fsys.Write), d.open("f", fsys.Read)
	require.NoError(t, d.remove("f"))
	require.Empty(t, d.names(""))
	_, err := old.Open(ctx, fsys.Read)
	require.ErrorIs(t, err, fsys.NotExist)
	require.ErrorIs(t, fsys.Remove(ctx, old), fsys.NotExist)

	d.put("f", "new")
	d.write(h, "er still", 3)
	b, err := fsys.ReadAll(ctx, second)
	require.NoError(t, err)
	require.Equal(t, "older still", string(b))
	info, err := old.Stat(ctx)
	require.NoError(t, err)
	require.NotEqual(t, d.stat("f").Gen, info.Gen)
	require.Equal(t, "new", d.read("f"))

	require.NoError(t, h.Close())
	require.NoError(t, h.Close())
	_, err = fsys.WriteAt(ctx, h, []byte("x"), 0)
	require.ErrorIs(t, err, fsys.BadHandle)
	_, err = old.Stat(ctx)
	require.NoError(t, err, "it lives until its last handle is closed")
	require.NoError(t, second.Close())
	_, err = old.Stat(ctx)
	require.ErrorIs(t, err, fsys.NotExist)
	require.NoError(t, d.remove("f"))
	d.empty()
}

func TestOrphansOfACrashAreSwept(t *testing.T) {
	d := newDisk(t, files.Options{})
	d.put("kept", "kept")
	d.put("f", strings.Repeat("x", 100_000))
	d.open("f", fsys.Read)
	require.NoError(t, d.remove("f"))
	used, _, err := d.tree.Usage(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 100_004, used)
	d.start(files.Options{})
	require.Equal(t, "kept", d.read("kept"))
	require.NoError(t, d.remove("kept"))
	d.empty()
}

func TestReplacedWhileOpen(t *testing.T) {
	d := newDisk(t, files.Options{})
	d.put("f", "old")
	d.put("tmp", "new")
	h := d.open("f", fsys.Read)
	require.NoError(t, d.rename("tmp", "f"))
	b, err := fsys.ReadAll(t.Context(), h)
	require.NoError(t, err)
	require.Equal(t, "old", string(b))
	require.Equal(t, "new", d.read("f"))
	require.NoError(t, h.Close())
	require.NoError(t, d.remove("f"))
	d.empty()
}

func TestLimits(t *testing.T) {
	ctx, d := t.Context(), newDisk(t, files.Options{MaxFile: 100, MaxBytes: 150, MaxEntries: 2})
	h := d.open("a", fsys.Read|fsys.Write)
	d.write(h, strings.Repeat("a", 100), 0)
	for _, off := range []int64{1, 100, 1<<63 - 1} {
		n, err := fsys.WriteAt(ctx, h, []byte(strings.Repeat("b", 100)), off)
		require.Zero(t, n)
		require.ErrorIs(t, err, fsys.TooLarge)
	}
	require.ErrorIs(t, fsys.Truncate(ctx, d.node("a"), 101), fsys.TooLarge)
	_, err := fsys.WriteAt(ctx, h, []byte("x"), -1)
	require.ErrorIs(t, err, fsys.Invalid)
	h2 := d.open("b", fsys.Write)
	_, err = fsys.WriteAt(ctx, h2, make([]byte, 51), 0)
	require.ErrorIs(t, err, fsys.NoSpace)
	require.NotEmpty(t, fsys.ReasonOf(err))
	_, err = fsys.Mkdir(ctx, d.tree.Root(), "c", 0o755)
	require.ErrorIs(t, err, fsys.NoSpace)
	require.Equal(t, strings.Repeat("a", 100), d.read("a"), "a refused write changed nothing")

	require.NoError(t, fsys.Truncate(ctx, d.node("a"), 20))
	d.write(h2, strings.Repeat("b", 100), 0)
	h3 := d.open("b", fsys.Write|fsys.Trunc)
	d.write(h3, strings.Repeat("b", 100), 0)
	require.NoError(t, d.remove("a"))
	d.mkdir("c")
}

func TestPermissions(t *testing.T) {
	ctx, d := t.Context(), newDisk(t, files.Options{})
	_, h, err := fsys.Create(ctx, d.tree.Root(), "f", 0o444, fsys.Write)
	require.NoError(t, err)
	d.write(h, "made read-only, and written by who made it\n", 0)
	_, err = d.node("f").Open(ctx, fsys.Write)
	require.ErrorIs(t, err, fsys.Permission)
	require.ErrorIs(t, fsys.Truncate(ctx, d.node("f"), 0), fsys.Permission)
	require.NoError(t, fstest.CheckTree(ctx, d.tree.Root(), "f"))

	perm, when := fs.FileMode(0o600), time.Date(2001, 2, 3, 4, 5, 6, 7, time.UTC)
	require.NoError(t, fsys.SetAttr(ctx, d.node("f"), fsys.Attr{Perm: &perm, ModTime: &when}))
	info := d.stat("f")
	require.Equal(t, perm, info.Perm)
	require.True(t, info.ModTime.Equal(when))
	d.put("f", "")
	require.WithinDuration(t, time.Now(), d.stat("f").ModTime, time.Minute)
	perm = 0o200
	require.NoError(t, fsys.SetAttr(ctx, d.node("f"), fsys.Attr{Perm: &perm}))
	_, err = d.node("f").Open(ctx, fsys.Read)
	require.ErrorIs(t, err, fsys.Permission)

	perm = 0o555
	require.NoError(t, fsys.SetAttr(ctx, d.tree.Root(), fsys.Attr{Perm: &perm}))
	require.ErrorIs(t, d.remove("f"), fsys.Permission)
	_, err = fsys.Mkdir(ctx, d.tree.Root(), "d", 0o755)
	require.ErrorIs(t, err, fsys.Permission)
	require.Equal(t, "f", d.names(""))

	for _, flag := range []fsys.Flag{0, fsys.Read | fsys.Trunc, fsys.Read | fsys.Append} {
		_, err = d.node("f").Open(ctx, flag)
		require.ErrorIs(t, err, fsys.Invalid, "flag %b", flag)
	}
}

func TestChangesAreToldInTheirTransaction(t *testing.T) {
	var told []string
	refuse := false
	opt := files.Options{Note: func(ctx context.Context, tx store.Store, c files.Change) error {
		if refuse {
			return fsys.NoSpace
		}
		told = append(told, strings.TrimSpace(fmt.Sprintf("%s %s %s", c.Op, c.Path, c.To)))
		return tx.Put(ctx, "told", nil)
	}}
	d := newDisk(t, opt)
	d.mkdir("dir")
	h := d.open("dir/f", fsys.Write)
	d.write(h, "1", 0)
	d.write(h, "2", 1)
	require.NoError(t, fsys.Sync(t.Context(), h))
	require.NoError(t, fsys.Finish(t.Context(), h))
	h = d.open("dir/f", fsys.Write|fsys.Append)
	d.write(h, "3", 0)
	require.NoError(t, h.Close(), "a client that hung up has written too")
	require.NoError(t, fsys.Rename(t.Context(), d.node("dir"), "f", "g"))
	require.NoError(t, fsys.Truncate(t.Context(), d.node("dir/g"), 1))
	require.NoError(t, d.remove("dir/g"))
	require.NoError(t, d.remove("dir"))
	require.Equal(t, []string{"created dir", "created dir/f", "changed dir/f", "changed dir/f",
		"renamed dir/f dir/g", "changed dir/g", "removed dir/g", "removed dir"}, told)

	refuse = true
	_, err := fsys.Mkdir(t.Context(), d.tree.Root(), "d", 0o755)
	require.ErrorIs(t, err, fsys.NoSpace)
	require.Empty(t, d.names(""))
}

// What was written by somebody whose close never came is told of after the
// crash, once; also if it was only cut.
func TestRecoverTellsOfWhatWasNotClosed(t *testing.T) {
	var told []string
	opt := files.Options{Note: func(ctx context.Context, tx store.Store, c files.Change) error {
		told = append(told, fmt.Sprintf("%s %s %d by %s", c.Op, c.Path, c.Size, fsys.CallerOf(ctx)))
		return nil
	}}
	d := newDisk(t, opt)
	ctx := fsys.WithCaller(t.Context(), "bob")
	untold := func() bool {
		is, err := files.Untold(ctx, d.st)
		require.NoError(t, err)
		return is
	}
	write := func(name, text string) fsys.Handle {
		h := d.open(name, fsys.Write|fsys.Trunc)
		_, err := fsys.WriteAt(ctx, h, []byte(text), 0)
		require.NoError(t, err)
		return h
	}
	for _, name := range []string{"closed", "open", "cut", "removed", "gone"} {
		require.NoError(t, write(name, "text").Close())
	}
	require.False(t, untold())
	write("open", "more text")
	write("removed", "more")
	require.NoError(t, d.remove("removed"))
	d.open("cut", fsys.Write|fsys.Trunc)
	require.True(t, untold())

	told = nil
	d.start(opt)
	require.NoError(t, d.tree.Recover(t.Context()))
	slices.Sort(told)
	require.Equal(t, []string{"changed cut 0 by ", "changed open 9 by bob"}, told)
	require.False(t, untold())
	require.NoError(t, d.tree.Recover(t.Context()))
	require.Len(t, told, 2)
}

// flaky is a store whose transactions fail when it is told to.
type flaky struct {
	store.Updater
	fail error
}

func (f *flaky) Update(ctx context.Context, do func(store.Store) error) error {
	return f.Updater.Update(ctx, func(tx store.Store) error {
		if err := do(tx); err != nil {
			return err
		}
		return f.fail
	})
}

func TestFailedTransactionsChangeNothing(t *testing.T) {
	ctx := t.Context()
	st := &flaky{Updater: mem.New()}
	d := &disk{t: t, st: st}
	d.start(files.Options{})
	d.put("f", "content")
	h := d.open("f", fsys.Read|fsys.Write)
	st.fail = fsys.NoSpace
	n, err := fsys.WriteAt(ctx, h, []byte("other"), 0)
	require.Zero(t, n)
	require.ErrorIs(t, err, fsys.NoSpace)
	_, _, err = fsys.Create(ctx, d.tree.Root(), "g", 0o644, fsys.Write)
	require.ErrorIs(t, err, fsys.NoSpace)
	require.ErrorIs(t, d.remove("f"), fsys.NoSpace)
	st.fail = nil
	require.NoError(t, h.Close())
	require.Equal(t, "content", d.read("f"), "a removal that failed frees nothing at close")
	st.fail = fsys.NoSpace
	require.ErrorIs(t, d.remove("f"), fsys.NoSpace)
	st.fail = nil
	require.Equal(t, "content", d.read("f"), "a file can be opened after a removal that failed")
	d.put("g", "2")
	require.NoError(t, d.remove("f"))
	require.NoError(t, d.remove("g"))
	d.empty()
}

// Whoever opens a file that others remove either is told that it is not there
// or has all of it until the close.
func TestOpenAgainstRemove(t *testing.T) {
	ctx, d := t.Context(), newDisk(t, files.Options{})
	root, content := d.tree.Root(), bytes.Repeat([]byte("0123456789abcdef"), 3000)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(stop)
		for range 200 {
			_, h, err := fsys.Create(ctx, root, "tmp", 0o644, fsys.Write)
			if err == nil {
				_, err = fsys.WriteAt(ctx, h, content, 0)
			}
			if err == nil {
				err = h.Close()
			}
			if err == nil {
				err = fsys.Rename(ctx, root, "tmp", "f")
			}
			if n, werr := fsys.Walk(ctx, root, "f"); err == nil && werr == nil {
				err = fsys.Remove(ctx, n)
			}
			if err != nil {
				t.Error(err)
				return
			}
		}
	})
	for range 3 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				h, err := fsys.OpenPath(ctx, root, "f", fsys.Read)
				if fsys.CodeOf(err) == fsys.NotExist {
					continue
				}
				var b []byte
				if err == nil {
					b, err = fsys.ReadAll(ctx, h)
				}
				if err == nil {
					err = fsys.Finish(ctx, h)
				}
				if err != nil || !bytes.Equal(b, content) {
					t.Errorf("read %d bytes, %v", len(b), err)
					return
				}
			}
		})
	}
	wg.Wait()
	d.empty()
}

// meter counts the bytes that are put.
type meter struct {
	store.Store
	bytes *int
}

func (m meter) Put(ctx context.Context, key string, value []byte) error {
	*m.bytes += len(value)
	return m.Store.Put(ctx, key, value)
}

type metered struct {
	store.Updater
	bytes int
}

func (m *metered) Update(ctx context.Context, f func(store.Store) error) error {
	return m.Updater.Update(ctx, func(tx store.Store) error { return f(meter{tx, &m.bytes}) })
}

func TestAppendToALargeFileIsCheap(t *testing.T) {
	st := &metered{Updater: mem.New()}
	d := &disk{t: t, st: st}
	d.start(files.Options{})
	d.put("f", strings.Repeat("x", 4<<20))
	h := d.open("f", fsys.Write|fsys.Append)
	st.bytes = 0
	d.write(h, "one more line\n", 0)
	require.Less(t, st.bytes, 32<<10)
}

func TestLargeDirectory(t *testing.T) {
	d := newDisk(t, files.Options{})
	for i := range 2000 {
		d.mkdir(fmt.Sprintf("%04d", i))
	}
	names := strings.Fields(d.names(""))
	require.Len(t, names, 2000)
	require.Equal(t, "1999", names[1999])
}
