//go:build linux

package conformance

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"agent9/fsys"
)

// TestExport checks that a tree which is shown to the kernel as a directory is
// files to the programs of a shell. show shows root until the test ends and
// returns where; what it shows may be the tree itself or what came of it at the
// other end of a wire. It is called many times. What the way there cannot
// express is in lacks, and is left out.
func TestExport(t *testing.T, show func(t *testing.T, root fsys.Node) (dir string), lacks ...Lack) {
	needPrograms(t, "bash")
	for _, c := range []struct {
		name string
		test func(t *testing.T, show func(t *testing.T, root fsys.Node) (dir string))
	}{
		{"one of each", func(t *testing.T, show func(*testing.T, fsys.Node) string) {
			exportScripts(t, show, exportOffice, officeScripts)
		}},
		{"stored files", func(t *testing.T, show func(*testing.T, fsys.Node) string) {
			exportScripts(t, show, exportStored, storedScripts)
		}},
		{"open files", func(t *testing.T, show func(*testing.T, fsys.Node) string) {
			if slices.Contains(lacks, LacksOpenFiles) {
				t.Skipf("lacks %s", LacksOpenFiles)
			}
			exportScripts(t, show, exportStored, openScripts)
		}},
		{"editors", exportEditors},
		{"errors", func(t *testing.T, show func(*testing.T, fsys.Node) string) { exportErrors(t, show, lacks...) }},
		{"many entries", exportManyEntries},
		{"changes by others", exportForeignChanges},
		{"requests", exportRequests},
		{"interrupts", exportInterrupts},
		{"blocked readers", exportBlockedReaders},
		{"slow requests", exportSlowRequests},
		{"streams", exportStreams},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, show) })
	}
}

// A Lack is what an export cannot express.
type Lack string

const (
	// LacksOpenFiles: a file that is open is only a name, and not there any
	// more when that was removed or means another file.
	LacksOpenFiles Lack = "files that are open and have lost their name"
	// LacksSync: a write is whole by itself, so there is no fsync(2) without
	// one.
	LacksSync Lack = "fsync without a write"
)

// An exportScript is run in the directory, and what it prints, errors included,
// must be want. $TMP is a directory elsewhere.
type exportScript struct{ name, script, want string }

func exportScripts(t *testing.T, show func(*testing.T, fsys.Node) string, tree func(*testing.T) fsys.Node, scripts []exportScript) {
	for _, c := range scripts {
		t.Run(c.name, func(t *testing.T) {
			if got, err := tryBash(t, show(t, tree(t)), c.script); got != c.want {
				t.Errorf("%s\n got %q, %v\nwant %q", c.script, got, err, c.want)
			}
		})
	}
}

func exportEditors(t *testing.T, show func(*testing.T, fsys.Node) string) {
	needPrograms(t, "vim")
	dir := show(t, exportOffice(t))
	got := bash(t, dir, `echo abc >goals/g; vim -es -u NONE -c '%s/b/X/' -c wq goals/g; cat goals/g; ls -A goals
		vim -es -u NONE -c '%s/1/3/' -c wq config; cat config`)
	if want := "aXc\ng\n{\"a\":3}\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// failing is a file that fails as it is told.
type failing struct{ open, stat, read, write, sync error }

type failingHandle struct{ failing }

func (f failing) Stat(context.Context) (fsys.Info, error) {
	return fsys.Info{Kind: fsys.Message, Perm: 0o666}, f.stat
}

func (f failing) Open(context.Context, fsys.Flag) (fsys.Handle, error) {
	return failingHandle{f}, f.open
}

func (f failingHandle) Close() error { return nil }

// ReadAt says what can be written, as a ctl file does.
func (f failingHandle) ReadAt(_ context.Context, p []byte, off int64) (int, error) {
	if f.read != nil {
		return 0, f.read
	}
	return strings.NewReader("x\n").ReadAt(p, off)
}

func (f failingHandle) WriteAt(_ context.Context, p []byte, _ int64) (int, error) { return 0, f.write }

func (f failingHandle) Sync(context.Context) error { return f.sync }

// exportErrors checks that every Code arrives as its number, from every call.
func exportErrors(t *testing.T, show func(*testing.T, fsys.Node) string, lacks ...Lack) {
	var entries []fsys.Entry
	for _, code := range fsys.Codes() {
		err := fsys.E(code, "on purpose")
		for name, node := range map[string]failing{
			"open": {open: err}, "stat": {stat: err}, "read": {read: err}, "write": {write: err}, "sync": {sync: err},
		} {
			entries = append(entries, fsys.Entry{Name: name + "-" + code.String(), Node: node})
		}
	}
	dir := show(t, fsys.NewTable(entries...))
	for _, code := range fsys.Codes() {
		t.Run(code.String(), func(t *testing.T) {
			want := syscall.Errno(code.Errno())
			path := func(what string) string { return filepath.Join(dir, what+"-"+code.String()) }
			check := func(what string, err error) {
				if err != want {
					t.Errorf("%s says %v, want %v", what, err, want)
				}
			}
			// Package os would try again after EINTR.
			_, err := syscall.Open(path("open"), syscall.O_RDONLY, 0)
			check("open", err)
			var st syscall.Stat_t
			check("stat", syscall.Stat(path("stat"), &st))
			for _, what := range []string{"read", "write", "sync"} {
				if what == "sync" && (code == fsys.Unsupported || slices.Contains(lacks, LacksSync)) {
					continue // a server that knows no fsync; clients pass that over
				}
				fd, err := syscall.Open(path(what), syscall.O_RDWR, 0)
				if err != nil {
					t.Fatal(err)
				}
				switch what {
				case "read":
					_, err = syscall.Read(fd, make([]byte, 1))
				case "write":
					_, err = syscall.Write(fd, make([]byte, 1))
				case "sync":
					check("fsync", syscall.Fsync(fd))
					what, err = "close", syscall.Close(fd)
				}
				check(what, err)
				if what != "close" {
					syscall.Close(fd)
				}
			}
		})
	}
}

func exportManyEntries(t *testing.T, show func(*testing.T, fsys.Node) string) {
	const many = 3000
	tree := exportStored(t)
	for i := range many {
		makeFile(t, tree, fmt.Sprintf("a-file-with-a-rather-long-name-%05d", i))
	}
	dir := show(t, tree)
	got := bash(t, dir, `ls | wc -l; find . -type f | wc -l; ls -f | sort | uniq -d | wc -l; ls -U | head -n1`)
	if want := fmt.Sprintf("%d\n%d\n0\na-file-with-a-rather-long-name-00000\n", many, many); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	d, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for i := range 2 { // rewinddir(3) lists again
		names, err := d.Readdirnames(-1)
		if err != nil || len(names) != many+i {
			t.Fatalf("%d names, %v, want %d", len(names), err, many+i)
		}
		makeFile(t, tree, fmt.Sprint("more", i))
		if _, err := d.Seek(0, 0); err != nil {
			t.Fatal(err)
		}
	}
	if got := bash(t, dir, `rm -r -- * && ls | wc -l`); got != "0\n" {
		t.Errorf("after rm -r: %q left", got)
	}
}

func makeFile(t *testing.T, dir fsys.Node, name string) {
	t.Helper()
	_, h, err := fsys.Create(t.Context(), dir, name, 0o644, fsys.Write)
	must(t, err)
	must(t, h.Close())
}

// exportForeignChanges checks that what one changes the other sees at once.
func exportForeignChanges(t *testing.T, show func(*testing.T, fsys.Node) string) {
	tree := exportStored(t)
	a, b := show(t, tree), show(t, tree)
	for i := range 50 {
		path := fmt.Sprint("/f", i%3)
		text := strings.Repeat("x", i)
		must(t, os.WriteFile(a+path, []byte(text), 0o644))
		st, err := os.Stat(b + path)
		if err != nil || st.Size() != int64(i) {
			t.Fatalf("size %v, %v, want %d", st, err, i)
		}
		if got, err := os.ReadFile(b + path); err != nil || string(got) != text {
			t.Fatalf("read %q, %v, want %q", got, err, text)
		}
		if i%5 == 0 {
			must(t, os.Remove(b+path))
			if _, err := os.Stat(a + path); !os.IsNotExist(err) {
				t.Fatalf("%s after it was removed: %v", path, err)
			}
		}
	}
}

// exportRequests checks what is one request: a write that the kernel cuts, and
// text that fsync(2) or close(2) ends.
func exportRequests(t *testing.T, show func(*testing.T, fsys.Node) string) {
	requests := make(chan string, 10)
	dir := show(t, fsys.NewTable(fsys.Entry{Name: "new", Node: &fsys.Call{Do: func(_ context.Context, req []byte) ([]byte, error) {
		requests <- string(req)
		return []byte("reply\n"), nil
	}}}))
	length := bash(t, dir, `{ printf '{"a":"'; head -c 1000000 /dev/zero | tr '\0' x; printf '"}'; } >$TMP/long
		dd if=$TMP/long of=new bs=4M status=none; wc -c <$TMP/long; cp $TMP/long new`)
	for range 2 {
		if got := receive(t, requests, "the request"); fmt.Sprintln(len(got)) != length {
			t.Errorf("a request of %d bytes, want %s", len(got), length)
		}
	}
	// The shell writes to a copy of 3, and closes that.
	if got := bash(t, dir, `exec 3<>new; echo closed >&3; cat <&3; printf synced | dd conv=fsync of=new status=none`); got != "reply\n" {
		t.Errorf("reply %q", got)
	}
	for _, want := range []string{"closed", "synced"} {
		if got := receive(t, requests, "the request"); got != want {
			t.Errorf("request %q, want %q", got, want)
		}
	}
	select {
	case got := <-requests:
		t.Errorf("one too many: %.20q", got)
	default:
	}
}
