package conformance

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"agent9/fsys"
	"agent9/fsys/fstest"
)

var fileRules = []boxRule{
	{"files both ways", inBox.filesBothWays},
	{"files made, renamed, removed", inBox.filesChanged},
	{"file errors", inBox.fileErrors},
	{"file names", inBox.fileNames},
	{"file attributes", inBox.fileAttributes},
	{"open files", inBox.openFiles},
	{"links", inBox.links},
	{"special files", inBox.specialFiles},
	{"the kernel's files", inBox.kernelFiles},
	{"skills", inBox.skills},
	{"a large file", inBox.largeFile},
	{"many files", inBox.manyFiles},
	{"a coherent tree", inBox.coherent},
}

func (in inBox) filesBothWays() {
	in.must(`printf 'from inside' >inside; mkdir -p d/e; echo deep >d/e/f`)
	if got := string(in.get("inside")); got != "from inside" {
		in.Errorf("a file of a program's is %q", got)
	}
	if got := string(in.get("d/e/f")); got != "deep\n" {
		in.Errorf("a file below is %q", got)
	}
	in.put("outside", everyByte())
	in.must("chmod 600 outside && test $(wc -c <outside) = 100000")
	if !bytes.Equal(in.get("outside"), everyByte()) {
		in.Errorf("a file is not what was written")
	}
	in.put("outside", []byte("short"))
	if got := in.must("cat outside"); got != "short" {
		in.Errorf("after writing anew, a program reads %q", got)
	}
}

func (in inBox) filesChanged() {
	ctx, dir := in.Context(), in.workspace()
	made, err := fsys.Mkdir(ctx, dir, "made", 0o755)
	if err != nil {
		in.Fatalf("Mkdir: %v", err)
	}
	n, h, err := fsys.Create(ctx, made, "new", 0o640, fsys.Write)
	if err != nil {
		in.Fatalf("Create: %v", err)
	}
	if _, err := fsys.WriteAt(ctx, h, []byte("0123456789"), 0); err != nil {
		in.Errorf("write: %v", err)
	}
	if err := fsys.Finish(ctx, h); err != nil {
		in.Errorf("end: %v", err)
	}
	if err := fsys.Truncate(ctx, n, 4); err != nil {
		in.Errorf("Truncate: %v", err)
	}
	if err := fsys.Rename(ctx, made, "new", "renamed"); err != nil {
		in.Errorf("Rename: %v", err)
	}
	if got := in.must("cat made/renamed; ls made"); got != "0123renamed\n" {
		in.Errorf("inside there is %q", got)
	}
	in.must("echo over >made/over")
	if err := fsys.Rename(ctx, made, "renamed", "over"); err != nil {
		in.Errorf("Rename onto a file: %v", err)
	}
	if got := in.must("cat made/over; ls made"); got != "0123over\n" {
		in.Errorf("inside there is %q", got)
	}
	in.remove("made/over")
	in.remove("made")
	in.must("test ! -e made")
}

func (in inBox) remove(name string) {
	in.Helper()
	n, err := fsys.WalkPath(in.Context(), in.workspace(), name)
	if err == nil {
		err = fsys.Remove(in.Context(), n)
	}
	if err != nil {
		in.Errorf("remove %s: %v", name, err)
	}
}

func (in inBox) fileErrors() {
	ctx, dir := in.Context(), in.workspace()
	in.must("mkdir -p errs/full; echo x >errs/full/x; echo x >errs/file; echo r >errs/readonly; chmod 444 errs/readonly")
	at := func(name string) fsys.Node {
		n, err := fsys.WalkPath(ctx, dir, "errs/"+name)
		if err != nil {
			in.Fatalf("walk to %q: %v", name, err)
		}
		return n
	}
	open := func(n fsys.Node, flag fsys.Flag) error {
		h, err := n.Open(ctx, flag)
		if err == nil {
			h.Close()
		}
		return err
	}
	walk := func(n fsys.Node, name string) error {
		_, err := fsys.Walk(ctx, n, name)
		return err
	}
	made := func(n fsys.Node, name string) error {
		_, err := fsys.Mkdir(ctx, n, name, 0o755)
		return err
	}
	errs := at("")
	for _, c := range []struct {
		what string
		err  error
		want fsys.Code
	}{
		{"walk to what is not there", walk(errs, "absent"), fsys.NotExist},
		{"walk through a file", walk(at("file"), "x"), fsys.NotDir},
		{"list a file", func() error { _, err := fsys.List(ctx, at("file")); return err }(), fsys.NotDir},
		{"remove a full directory", fsys.Remove(ctx, at("full")), fsys.NotEmpty},
		{"make what there is", made(errs, "full"), fsys.Exist},
		{"make a name that cannot be", made(errs, "a/b"), fsys.Invalid},
		{"write what is read-only", open(at("readonly"), fsys.Write), fsys.Permission},
		{"truncate what is read-only", fsys.Truncate(ctx, at("readonly"), 0), fsys.Permission},
		{"write a directory", open(at("full"), fsys.Write), fsys.IsDir},
		{"rename what is not there", fsys.Rename(ctx, errs, "absent", "other"), fsys.NotExist},
		{"a name that is too long", made(errs, strings.Repeat("n", 256)), fsys.NameTooLong},
	} {
		if got := fsys.CodeOf(c.err); c.err == nil || got != c.want {
			in.Errorf("%s: got %v, want %v", c.what, c.err, c.want)
		}
	}
}

func (in inBox) fileNames() {
	ctx := in.Context()
	names := []string{"a b", " lead", "new\nline", "é世界", "-n", "*", "~", "'\"", "\\", "\x01", strings.Repeat("n", 255)}
	dir, err := fsys.Mkdir(ctx, in.workspace(), "names", 0o755)
	if err != nil {
		in.Fatal(err)
	}
	for _, name := range names {
		in.put2(dir, name, name)
	}
	r := in.sh(`cd names && for f in *; do cat "./$f"; printf '\0'; done`)
	inside := strings.Split(strings.TrimSuffix(r.out, "\x00"), "\x00")
	slices.Sort(inside)
	slices.Sort(names)
	if !slices.Equal(inside, names) {
		in.Errorf("programs see %q, want %q", inside, names)
	}
	entries, err := fsys.List(ctx, dir)
	if err != nil {
		in.Fatal(err)
	}
	var listed []string
	for _, e := range entries {
		listed = append(listed, e.Name)
		if text, err := fsys.ReadFile(ctx, dir, e.Name); err != nil || string(text) != e.Name {
			in.Errorf("%q: %q, %v", e.Name, text, err)
		}
	}
	if slices.Sort(listed); !slices.Equal(listed, names) {
		in.Errorf("listed are %q, want %q", listed, names)
	}
	in.must("rm -r names")
}

func (in inBox) put2(dir fsys.Node, name, text string) {
	in.Helper()
	_, h, err := fsys.Create(in.Context(), dir, name, 0o644, fsys.Write)
	if err != nil {
		in.Errorf("create %q: %v", name, err)
		return
	}
	if _, err := fsys.WriteAt(in.Context(), h, []byte(text), 0); err != nil {
		in.Errorf("write %q: %v", name, err)
	}
	fsys.Finish(in.Context(), h)
}

func (in inBox) stat(name string) fsys.Info {
	in.Helper()
	n, err := fsys.WalkPath(in.Context(), in.workspace(), name)
	if err != nil {
		in.Fatalf("walk to %s: %v", name, err)
	}
	info, err := n.Stat(in.Context())
	if err != nil {
		in.Fatalf("Stat of %s: %v", name, err)
	}
	return info
}

func (in inBox) fileAttributes() {
	in.must("printf 12345 >attrs; chmod 750 attrs; touch -t 202001020304.05 attrs")
	info := in.stat("attrs")
	if info.Kind != fsys.File || info.Size != 5 || info.Perm != 0o750 || info.ModTime.UTC().Year() != 2020 {
		in.Errorf("the attributes are %+v", info)
	}
	perm, when := fs.FileMode(0o600), time.Date(2021, 5, 6, 7, 8, 9, 0, time.UTC)
	n, _ := fsys.WalkPath(in.Context(), in.workspace(), "attrs")
	if err := fsys.SetAttr(in.Context(), n, fsys.Attr{Perm: &perm, ModTime: &when}); err != nil {
		in.Errorf("SetAttr: %v", err)
	}
	if info := in.stat("attrs"); info.Perm != perm || !info.ModTime.Equal(when) {
		in.Errorf("after SetAttr they are %+v", info)
	}
	before := in.stat("attrs").Version
	in.must("echo 54321 >>attrs")
	if after := in.stat("attrs"); after.Version == before || after.Size != 11 {
		in.Errorf("a file that changed has the version that it had: %+v", after)
	}
}

// openFiles checks that what is open is the file, whatever becomes of its
// name, and that programs and clients see each other's writes.
func (in inBox) openFiles() {
	ctx := in.Context()
	in.put("opened", []byte("aaaa"))
	n, err := fsys.WalkPath(ctx, in.workspace(), "opened")
	if err != nil {
		in.Fatal(err)
	}
	h, err := n.Open(ctx, fsys.Read|fsys.Write)
	if err != nil {
		in.Fatal(err)
	}
	defer h.Close()
	in.must("printf bb >>opened")
	if text, err := fsys.ReadAll(ctx, h); err != nil || string(text) != "aaaabb" {
		in.Errorf("read %q, %v", text, err)
	}
	if _, err := fsys.WriteAt(ctx, h, []byte("XY"), 1); err != nil {
		in.Errorf("write: %v", err)
	}
	if got := in.must("cat opened; rm opened"); got != "aXYabb" {
		in.Errorf("a program reads %q", got)
	}
	if text, err := fsys.ReadAll(ctx, h); err != nil || string(text) != "aXYabb" {
		in.Errorf("after it was removed: %q, %v", text, err)
	}
	in.must("echo 1 >appended")
	a, err := fsys.OpenPath(ctx, in.workspace(), "appended", fsys.Write|fsys.Append)
	if err != nil {
		in.Fatal(err)
	}
	for range 2 {
		if _, err := fsys.WriteAt(ctx, a, []byte("2\n"), 0); err != nil {
			in.Errorf("append: %v", err)
		}
	}
	fsys.Finish(ctx, a)
	if got := in.must("cat appended"); got != "1\n2\n2\n" {
		in.Errorf("after appending, a program reads %q", got)
	}
}

func (in inBox) links() {
	ctx := in.Context()
	in.must(`mkdir -p links/dir/deep && cd links && echo text >file && echo below >dir/below &&
ln -s file to-file && ln -s dir to-dir && ln -s nowhere dangling && ln -s loop2 loop1 && ln -s loop1 loop2 &&
ln -s .. up && ln -s . dir/self && ln -s ../.. dir/deep/upup && ln -s /etc/passwd passwd && ln -s / root`)
	dir, err := fsys.WalkPath(ctx, in.workspace(), "links")
	if err != nil {
		in.Fatal(err)
	}
	read := func(path, want string) {
		if text, err := fsys.ReadFile(ctx, dir, path); err != nil || string(text) != want {
			in.Errorf("%s: %q, %v", path, text, err)
		}
	}
	read("to-file", "text\n")
	read("to-dir/below", "below\n")
	for _, name := range []string{"dangling", "loop1", "loop2", "up", "dir/self", "dir/deep/upup"} {
		n, err := fsys.WalkPath(ctx, dir, name)
		if err != nil {
			in.Errorf("%s: %v", name, err)
			continue
		}
		if info, err := n.Stat(ctx); err != nil || info.Kind != fsys.File || info.Perm != 0 {
			in.Errorf("%s is %+v, %v, want a file that nobody may open", name, info, err)
		}
		for _, flag := range []fsys.Flag{fsys.Read, fsys.Write} {
			if _, err := n.Open(ctx, flag); fsys.CodeOf(err) != fsys.Permission {
				in.Errorf("open %s: %v", name, err)
			}
		}
	}
	in.linksOut(dir)
	if err := fsys.Remove(ctx, mustWalk(in.T, dir, "to-dir")); err != nil {
		in.Errorf("remove a link: %v", err)
	}
	if err := fsys.Rename(ctx, dir, "to-file", "renamed"); err != nil {
		in.Errorf("rename a link: %v", err)
	}
	if got := in.must("cd links && test ! -e to-dir && cat dir/below && test -L renamed && echo link"); got != "below\nlink\n" {
		in.Errorf("after that a program sees %q", got)
	}
	if err := fstest.CheckTree(ctx, dir); err != nil {
		in.Errorf("the tree with links: %v", err)
	}
	in.must("rm -r links")
}

// linksOut checks what leads to the root of the file system: shown if the
// sandbox has one of its own, and else a file that cannot be opened.
func (in inBox) linksOut(dir fsys.Node) {
	ctx := in.Context()
	passwd, perr := fsys.ReadFile(ctx, dir, "passwd")
	_, rerr := fsys.WalkPath(ctx, dir, "root/etc")
	if in.box.Where().Root == "/" {
		// It is among the directories that one has walked through.
		if fsys.CodeOf(rerr) != fsys.NotDir {
			in.Errorf("a link to the root of the tree, in it: %v", rerr)
		}
		if want := in.sh("cat /etc/passwd"); want.exit.Code == 0 && string(passwd) != want.out {
			in.Errorf("a link to /etc/passwd: %q, %v; a program reads %q", passwd, perr, want.out)
		}
		if perr == nil {
			h, err := mustWalk(in.T, dir, "passwd").Open(ctx, fsys.Write)
			if fsys.CodeOf(err) != fsys.Permission {
				in.Errorf("writing through a link to a file of the image: %v, %v", h, err)
			}
		}
		return
	}
	if fsys.CodeOf(perr) != fsys.Permission {
		in.Errorf("a link out of the sandbox can be read: %q, %v", passwd, perr)
	}
	if fsys.CodeOf(rerr) != fsys.NotDir {
		in.Errorf("a link out of the sandbox can be walked through: %v", rerr)
	}
}

func mustWalk(t *testing.T, dir fsys.Node, path string) fsys.Node {
	t.Helper()
	n, err := fsys.WalkPath(t.Context(), dir, path)
	if err != nil {
		t.Fatalf("walk to %s: %v", path, err)
	}
	return n
}

func (in inBox) specialFiles() {
	ctx := in.Context()
	in.must("mkdir special && cd special && mkfifo pipe && ln -s /dev/zero zero && ln -s pipe to-pipe")
	dir := mustWalk(in.T, in.workspace(), "special")
	for _, name := range []string{"pipe", "zero", "to-pipe"} {
		n := mustWalk(in.T, dir, name)
		if info, err := n.Stat(ctx); err != nil || info.Kind != fsys.File || info.Size != 0 {
			in.Errorf("%s: %+v, %v", name, info, err)
		}
		for _, flag := range []fsys.Flag{fsys.Read, fsys.Write, fsys.Write | fsys.Trunc} {
			if h, err := n.Open(ctx, flag); fsys.CodeOf(err) != fsys.Permission {
				in.Errorf("open %s: %v, %v", name, h, err)
			}
		}
	}
	entries, err := fsys.List(ctx, dir)
	if err != nil || len(entries) != 3 {
		in.Errorf("listed: %v, %v", entries, err)
	}
	for _, e := range entries {
		if err := fsys.Remove(ctx, e.Node); err != nil {
			in.Errorf("remove %s: %v", e.Name, err)
		}
	}
	in.must("rmdir special")
}

func (in inBox) kernelFiles() {
	if in.box.Where().Root != "/" {
		in.Skip("the sandbox has no root file system of its own")
	}
	ctx := in.Context()
	root, err := in.box.Files(ctx)
	if err != nil {
		in.Fatal(err)
	}
	for _, name := range []string{"proc", "sys"} {
		n, err := fsys.Walk(ctx, root, name)
		if err != nil && fsys.CodeOf(err) == fsys.NotExist {
			continue
		}
		if err != nil {
			in.Errorf("%s: %v", name, err)
			continue
		}
		if entries, err := fsys.List(ctx, n); err != nil || len(entries) > 0 {
			in.Errorf("%s has %d entries, %v", name, len(entries), err)
		}
		if _, err := fsys.Walk(ctx, n, "self"); fsys.CodeOf(err) != fsys.NotExist {
			in.Errorf("%s/self: %v", name, err)
		}
	}
	in.must("ln -s /proc/1/environ env; ln -s /proc/self/root r; ln -s /proc/self/fd fds")
	for _, name := range []string{"env", "r/etc", "fds/0"} {
		if text, err := fsys.ReadFile(ctx, in.workspace(), name); err == nil {
			in.Errorf("%s leads to something that can be read: %q", name, text)
		}
	}
	in.must("rm env r fds")
}

func (in inBox) skills() {
	where := in.box.Where()
	if got := in.must("cat $1/sums.md", where.Skills); got != skill {
		in.Errorf("a program reads the skill as %q", got)
	}
	if !in.s.SkillsFixed {
		return
	}
	in.sh("chmod -R u+w $1; echo changed >$1/sums.md; rm -rf $1; mv $1 away; echo new >$1/new", where.Skills)
	if got := in.must("cat $1/sums.md; ls $1", where.Skills); got != skill+"sums.md\n" {
		in.Errorf("after programs tried to change them, the skills are %q", got)
	}
	below, _ := where.Path(where.Skills)
	root, err := in.box.Files(in.Context())
	if err != nil {
		in.Fatal(err)
	}
	if err := fsys.WriteFile(in.Context(), root, below+"/sums.md", []byte("changed")); err == nil {
		in.Errorf("a skill was written by way of the files")
	}
}

// largeFile streams a file that has almost no blocks, both ways, and watches
// the memory.
func (in inBox) largeFile() {
	ctx := in.Context()
	size := int64(1 << 30)
	if testing.Short() || slowed {
		size = 64 << 20
	}
	in.must(fmt.Sprintf("dd if=/dev/zero of=large bs=1 count=1 seek=%d 2>/dev/null", size-1))
	if got := in.stat("large").Size; got != size {
		in.Fatalf("the size is %d", got)
	}
	h, err := fsys.OpenPath(ctx, in.workspace(), "large", fsys.Read)
	if err != nil {
		in.Fatal(err)
	}
	defer h.Close()
	begun := time.Now()
	buf := make([]byte, 1<<20)
	heapBound(in.T, 64<<20, func(look func()) {
		var off int64
		for {
			n, err := fsys.ReadAt(ctx, h, buf, off)
			off += int64(n)
			if off%(64<<20) == 0 {
				look()
			}
			if fsys.IsEOF(err) || err == nil && n == 0 {
				break
			}
			if err != nil {
				in.Fatalf("at %d: %v", off, err)
			}
		}
		if off != size {
			in.Errorf("%d bytes were read, want %d", off, size)
		}
	})
	in.Logf("reading: %.0f MB/s", float64(size)/time.Since(begun).Seconds()/1e6)
	if rss := in.boxMemory(); rss > 100<<10 {
		in.Errorf("the box has taken %d KB", rss)
	}
	in.must("rm large")
}

// boxMemory is the resident set of the box in KB, 0 if it is not to be found.
func (in inBox) boxMemory() (kb int) {
	out := in.sh(`for p in /proc/[0-9]*; do tr '\0' ' ' <$p/cmdline 2>/dev/null | grep -q "^$1 box " && sed -n 's/^VmHWM:[^0-9]*\([0-9]*\).*/\1/p' $p/status; done; true`, in.box.Where().Helper)
	fmt.Sscan(out.out, &kb)
	return kb
}

func (in inBox) manyFiles() {
	const most = 1000
	in.must(fmt.Sprintf("mkdir many; cd many; seq %d | xargs touch", most))
	ctx := in.Context()
	dir := mustWalk(in.T, in.workspace(), "many")
	begun := time.Now()
	entries, err := fsys.List(ctx, dir)
	in.Logf("listing: %v", time.Since(begun))
	if err != nil || len(entries) != most {
		in.Errorf("%d are listed, want %d; %v", len(entries), most, err)
	}
	in.must("rm -r many")
}

// coherent checks all that there is in the workspace, and a part of what the
// image has.
func (in inBox) coherent() {
	ctx, cancel := context.WithTimeout(in.Context(), in.s.Bound)
	defer cancel()
	in.must("mkdir -p tree/a/b; echo x >tree/a/x; printf y >tree/y; chmod 444 tree/y; mkfifo tree/p; : >tree/empty; ln -s a tree/l")
	if err := fstest.CheckTree(ctx, in.workspace(), "tree/a/b", "tree/l/x"); err != nil {
		in.Error(err)
	}
	in.must("rm -rf tree")
	if in.box.Where().Root != "/" {
		return
	}
	root, err := in.box.Files(ctx)
	if err != nil {
		in.Fatal(err)
	}
	for _, name := range []string{"etc", "dev", "proc", "tmp", "run"} {
		n, err := fsys.Walk(ctx, root, name)
		if err != nil {
			continue
		}
		if err := fstest.CheckTree(ctx, n); err != nil {
			in.Errorf("/%s: %v", name, err)
		}
	}
}
