//go:build linux && !386 && !arm && !mips && !mipsle

package fuse_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"agent9/fsys"
	"agent9/fsys/export/fuse"
)

// A waiter is a file whose reads, and opens and writes if asked, wait until
// they are told to go on or are cancelled.
type waiter struct {
	entered chan string // what began to wait
	left    chan error  // why it no longer waits
	closed  chan struct{}
	release chan struct{}
	synced  chan struct{}
}

func newWaiter() *waiter {
	return &waiter{
		entered: make(chan string, 1000),
		left:    make(chan error, 1000),
		closed:  make(chan struct{}, 1000),
		synced:  make(chan struct{}, 1000),
		release: make(chan struct{}),
	}
}

func (w *waiter) wait(ctx context.Context, what string) error {
	w.entered <- what
	select {
	case <-ctx.Done():
		w.left <- context.Cause(ctx)
		return context.Cause(ctx)
	case <-w.release:
		w.left <- nil
		return nil
	}
}

func (w *waiter) Stat(context.Context) (fsys.Info, error) {
	return fsys.Info{Kind: fsys.Stream, Perm: 0o666}, nil
}

func (w *waiter) Open(context.Context, fsys.Flag) (fsys.Handle, error) { return waiting{w}, nil }

type waiting struct{ w *waiter }

func (h waiting) Close() error {
	h.w.closed <- struct{}{}
	return nil
}

func (h waiting) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	if err := h.w.wait(ctx, "read"); err != nil {
		return 0, err
	}
	return 0, nil
}

func (h waiting) WriteAt(ctx context.Context, p []byte, off int64) (int, error) {
	if err := h.w.wait(ctx, "write"); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (h waiting) Sync(context.Context) error {
	h.w.synced <- struct{}{}
	return nil
}

// receive returns the next value of c, or fails the test.
func receive[T any](t *testing.T, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("%s: nothing after %v", what, patience)
		panic("unreachable")
	}
}

func TestInterrupt(t *testing.T) {
	w := newWaiter()
	dir := mount(t, fsys.NewTable(entry("w", w)))
	for _, c := range []struct {
		script string
		signal syscall.Signal
	}{
		{"exec cat w", syscall.SIGINT},
		{"exec cat w", syscall.SIGTERM},
		{"exec cat w", syscall.SIGKILL},
		{"exec cp README w", syscall.SIGINT}, // no such README: see below
	} {
		if strings.HasPrefix(c.script, "exec cp") {
			c.script = "exec dd if=/dev/zero of=w bs=1 count=1 status=none"
		}
		t.Run(fmt.Sprint(c.script, " ", c.signal), func(t *testing.T) {
			cmd, _ := start(t, dir, c.script)
			receive(t, w.entered, "the call")
			began := time.Now()
			cmd.Process.Signal(c.signal)
			err := wait(t, cmd)
			took := time.Since(began)
			if err == nil {
				t.Error("the program ended as if nothing had happened")
			}
			if err := receive(t, w.left, "the end of the call"); fsys.CodeOf(err) != fsys.Canceled {
				t.Errorf("the call ended with %v, want it cancelled", err)
			}
			receive(t, w.closed, "Close")
			t.Logf("gone after %v", took)
			if took > 5*time.Second {
				t.Errorf("gone only after %v", took)
			}
		})
	}
}

func TestBlockedReadersStarveNobody(t *testing.T) {
	const readers = 200
	w := newWaiter()
	dir := mount(t, fsys.NewTable(entry("w", w), entry("new", echo()), entry("goals", newRAM()), entry("README", fsys.Const("hello\n"))))
	cats, _ := start(t, dir, fmt.Sprintf("for ((i=0; i<%d; i++)); do cat w & done; wait", readers))
	for range readers {
		receive(t, w.entered, "a reader")
	}
	got := bash(t, dir, `cat README; ls; echo '{"a":1}' >new; mkdir goals/d; echo 1 >goals/d/f; mv goals/d/f goals/d/g; cat goals/d/g; rm -r goals/d; stat -c %s w`)
	if want := "hello\nREADME\ngoals\nnew\nw\n1\n0\n"; got != want {
		t.Errorf("among %d blocked readers:\n got %q\nwant %q", readers, got, want)
	}
	syscall.Kill(-cats.Process.Pid, syscall.SIGKILL)
	cats.Wait()
	for range readers {
		if err := receive(t, w.left, "the end of a read"); fsys.CodeOf(err) != fsys.Canceled {
			t.Fatalf("a read ended with %v, want it cancelled", err)
		}
		receive(t, w.closed, "Close")
	}
}

// slow returns a Message file whose requests wait.
func slow(w *waiter) *fsys.Call {
	return &fsys.Call{Do: func(ctx context.Context, req []byte) ([]byte, error) {
		if bytes.Contains(req, []byte("slow")) {
			if err := w.wait(ctx, "request"); err != nil {
				return nil, err
			}
		}
		return fmt.Appendf(nil, "got %s\n", req), nil
	}}
}

func TestSlowRequestsDoNotBlockOthers(t *testing.T) {
	const many = 20
	w := newWaiter()
	dir := mount(t, fsys.NewTable(entry("new", slow(w))))
	all, _ := start(t, dir, fmt.Sprintf(`for ((i=0; i<%d; i++)); do (exec 3<>new; echo '{"slow":1}' >&3; cat <&3) & done; wait`, many))
	for range many {
		receive(t, w.entered, "all the requests at once")
	}
	if got, want := bash(t, dir, `exec 3<>new; echo '{"a":1}' >&3; cat <&3; exec 3>&-; echo text >new; : >new; stat -c %s new`), "got {\"a\":1}\n0\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	interrupted, _ := start(t, dir, `exec dd if=<(echo '{"slow":1}') of=new status=none`)
	receive(t, w.entered, "the request")
	interrupted.Process.Signal(syscall.SIGINT)
	wait(t, interrupted)
	if err := receive(t, w.left, "the end of the request"); fsys.CodeOf(err) != fsys.Canceled {
		t.Errorf("an interrupted request ended with %v, want it cancelled", err)
	}
	close(w.release)
	if err := wait(t, all); err != nil {
		t.Error(err)
	}
}

func TestFlushActs(t *testing.T) {
	var acted = make(chan string, 10)
	call := &fsys.Call{Do: func(_ context.Context, req []byte) ([]byte, error) {
		acted <- string(req)
		return []byte("reply\n"), nil
	}}
	dir := mount(t, fsys.NewTable(entry("new", call)))
	// The shell duplicates 3 for echo and closes the copy.
	if got := bash(t, dir, `exec 3<>new; echo text >&3; sync new 3>&-; cat <&3`); got != "reply\n" {
		t.Errorf("reply %q", got)
	}
	if got := receive(t, acted, "the request"); got != "text" {
		t.Errorf("request %q", got)
	}
	// Pieces of one write(2), which the kernel cuts at a megabyte.
	long := bash(t, dir, `{ printf '{"a":"'; head -c 1000000 /dev/zero | tr '\0' x; printf '"}'; } >$TMP/long; dd if=$TMP/long of=new bs=4M status=none && wc -c <$TMP/long`)
	if got := receive(t, acted, "the long request"); fmt.Sprintln(len(got)) != long {
		t.Errorf("a request of %d bytes, want %s", len(got), long)
	}
	// fsync(2) ends a request too.
	if got := bash(t, dir, `exec 3<>new; printf text | dd of=/dev/fd/3 conv=fsync,notrunc status=none`); got != "" {
		t.Error(got)
	}
	if got := receive(t, acted, "the fsynced request"); got != "text" {
		t.Errorf("request %q", got)
	}
	select {
	case got := <-acted:
		t.Errorf("a request of its own: %q", got)
	default:
	}
}

// failing returns an error of every Code from one call or another.
type failing struct {
	kind             fsys.Kind
	open, read, sync error
	write, stat      error
}

func (f failing) Stat(context.Context) (fsys.Info, error) {
	return fsys.Info{Kind: f.kind, Perm: 0o666}, f.stat
}
func (f failing) Open(context.Context, fsys.Flag) (fsys.Handle, error) {
	return failingHandle{f}, f.open
}
func (f failingHandle) ReadAt(context.Context, []byte, int64) (int, error)        { return 0, f.read }
func (f failingHandle) WriteAt(_ context.Context, p []byte, _ int64) (int, error) { return 0, f.write }
func (f failingHandle) Sync(context.Context) error                                { return f.sync }
func (f failingHandle) Close() error                                              { return nil }

type failingHandle struct{ failing }

func TestEveryCodeIsItsErrno(t *testing.T) {
	var entries []fsys.Entry
	for _, code := range fsys.Codes() {
		err := fsys.E(code, "on purpose")
		for _, e := range []struct {
			name string
			node failing
		}{
			{"open", failing{open: err}}, {"read", failing{read: err}}, {"write", failing{write: err}},
			{"sync", failing{sync: err}}, {"stat", failing{stat: err}},
		} {
			entries = append(entries, entry(e.name+"-"+code.String(), e.node))
		}
	}
	dir := mount(t, fsys.NewTable(entries...))
	for _, code := range fsys.Codes() {
		want := syscall.Errno(code.Errno())
		path := func(what string) string { return filepath.Join(dir, what+"-"+code.String()) }
		check := func(what string, err error) {
			if err != want {
				t.Errorf("%v: %s(2) says %v, want %v", code, what, err, want)
			}
		}
		b := []byte{0}
		_, err := syscall.Open(path("open"), syscall.O_RDONLY, 0)
		check("open", err)
		var st syscall.Stat_t
		check("stat", syscall.Stat(path("stat"), &st))
		fd := open(t, path("read"))
		_, err = syscall.Read(fd, b)
		check("read", err)
		syscall.Close(fd)
		fd = open(t, path("write"))
		_, err = syscall.Write(fd, b)
		check("write", err)
		syscall.Close(fd)
		fd = open(t, path("sync"))
		check("fsync", syscall.Fsync(fd))
		check("close", syscall.Close(fd))
	}
}

func open(t *testing.T, path string) int {
	t.Helper()
	fd, err := syscall.Open(path, syscall.O_RDWR, 0)
	if err != nil {
		t.Fatal(path, err)
	}
	return fd
}

func TestTailFollows(t *testing.T) {
	var m fsys.Memory
	tape := fsys.NewTape(&m)
	m.Append([]byte("old\n"))
	dir := mount(t, fsys.NewTable(entry("log", tape)))
	for _, script := range []string{"exec tail -n1 -f log", "exec tail -n1 -F log", "exec cat log"} {
		cmd := exec.Command("bash", "-c", `cd "$0"; `+script, dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		late := time.AfterFunc(patience, func() { cmd.Process.Kill() })
		b := make([]byte, 4)
		for i := range 3 {
			if n, err := out.Read(b); err != nil || n != 4 {
				t.Fatalf("%s: line %d: %q, %v", script, i, b[:n], err)
			}
			if i < 2 {
				m.Append([]byte("new\n"))
				tape.Grown()
			}
			if strings.Contains(script, "cat") {
				break
			}
		}
		late.Stop()
		cmd.Process.Kill()
		cmd.Wait()
	}
}

func TestManyEntries(t *testing.T) {
	const many = 10_000
	ram := newRAM()
	for i := range many {
		ram.Create(t.Context(), fmt.Sprintf("file-with-a-rather-long-name-%05d", i), 0o644, fsys.Write)
	}
	dir := mount(t, ram)
	if got := bash(t, dir, `ls | wc -l; find . -type f | wc -l; ls -f | sort | uniq -d | wc -l; ls -U | head -n1`); got !=
		"10000\n10000\n0\nfile-with-a-rather-long-name-00000\n" {
		t.Errorf("got %q", got)
	}
	// rewinddir(3) lists again.
	d, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for _, want := range []int{many, many + 1} {
		names, err := d.Readdirnames(-1)
		if err != nil || len(names) != want {
			t.Fatalf("%d names, %v, want %d", len(names), err, want)
		}
		ram.Create(t.Context(), fmt.Sprint("more", want), 0o644, fsys.Write)
		if _, err := d.Seek(0, 0); err != nil {
			t.Fatal(err)
		}
	}
	if got := bash(t, dir, `rm -r -- * && ls | wc -l`); got != "0\n" {
		t.Errorf("after rm -r: %q left", got)
	}
}

// within waits until is holds.
func within(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	end := time.After(patience)
	for !is() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatal(what)
		}
	}
}

func TestNamesAreForgotten(t *testing.T) {
	ram := newRAM()
	dir := t.TempDir()
	m := mountAt(t, ram, dir, fuse.Options{})
	bash(t, dir, `for ((i=0; i<500; i++)); do : >f$i; mkdir d$i; : >d$i/x; done; rm -r -- *`)
	within(t, "what was removed is still known", func() bool { return m.Known() == 1 })
	for i := range 3 * fuse.MaxIdle {
		ram.Create(t.Context(), fmt.Sprint("f", i), 0o644, fsys.Write)
	}
	if got := bash(t, dir, `exec 3<f0; ls -l 2>&1 | wc -l; test /dev/fd/3 -ef f0 && echo same`); got != fmt.Sprintf("%d\nsame\n", 3*fuse.MaxIdle+1) {
		t.Errorf("got %q", got)
	}
	within(t, "idle names are kept", func() bool { return m.Known() <= 2*fuse.MaxIdle })
	if got := bash(t, dir, `cat f1 f2 && ls | wc -l`); got != fmt.Sprintln(3*fuse.MaxIdle) {
		t.Errorf("got %q", got)
	}
}

func TestAllowOther(t *testing.T) {
	need(t, "su")
	if os.Getuid() != 0 {
		t.Skip("this test is for root")
	}
	home := t.TempDir()
	os.Chmod(filepath.Dir(home), 0o755)
	for _, c := range []struct {
		allow bool
		want  string
	}{
		{true, "hello\nworld\nconfig: Permission denied\nnot w\nok\n"},
		{false, "cd: Permission denied\n"},
	} {
		dir := fmt.Sprint(home, "/", c.allow)
		os.Mkdir(dir, 0o755)
		mountAt(t, office(), dir, fuse.Options{AllowOther: c.allow})
		script := `cd ` + dir + ` || exit; cat README; echo {} >config; test -w config || echo not w; echo x >new && echo ok`
		out, _ := exec.Command("su", "-s", "/bin/bash", "nobody", "-c", `{ `+script+`; } 2>&1 | sed -E 's/^.*line [0-9]+: //; s,^cd: .*: ,cd: ,'`).CombinedOutput()
		if string(out) != c.want {
			t.Errorf("AllowOther %v: got %q, want %q", c.allow, out, c.want)
		}
	}
}

func TestForeignChangesAreSeenAtOnce(t *testing.T) {
	ram := newRAM()
	a, b := mount(t, ram), mount(t, ram)
	for i := range 50 {
		path := fmt.Sprint("/f", i%3)
		text := strings.Repeat("x", i)
		if err := os.WriteFile(a+path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		st, err := os.Stat(b + path)
		if err != nil || st.Size() != int64(i) {
			t.Fatalf("size %v, %v, want %d", st, err, i)
		}
		got, err := os.ReadFile(b + path)
		if err != nil || string(got) != text {
			t.Fatalf("read %q, %v, want %q", got, err, text)
		}
		if i%5 == 0 {
			if err := os.Remove(b + path); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(a + path); !os.IsNotExist(err) {
				t.Fatalf("%s after it was removed: %v", path, err)
			}
		}
	}
}

// ours returns how many goroutines are in this package or go-fuse.
func ours() (n int, stacks string) {
	var b bytes.Buffer
	pprof.Lookup("goroutine").WriteTo(&b, 2)
	for g := range strings.SplitSeq(b.String(), "\n\n") {
		if strings.Contains(g, "hanwen/go-fuse") || strings.Contains(g, "agent9/fsys/export/fuse.") {
			n++
			stacks += g + "\n\n"
		}
	}
	return n, stacks
}

func nothingLeft(t *testing.T) {
	t.Helper()
	var stacks string
	defer func() {
		if t.Failed() {
			t.Log(stacks)
		}
	}()
	within(t, "goroutines are left", func() (none bool) {
		var n int
		n, stacks = ours()
		return n == 0
	})
}

func TestUnmountLeavesNothing(t *testing.T) {
	w := newWaiter()
	for _, c := range []struct{ name, script string }{
		{"idle", ""},
		{"blocked readers", "cat w & cat w & wait"},
		{"a file held open", "exec 3<>w; echo x >&3; cat <&3; sleep 60"},
		{"a shell in it", "cd sub; cat ../w; sleep 60"},
	} {
		t.Run(c.name, func(t *testing.T) {
			nothingLeft(t)
			dir := t.TempDir()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			m, err := fuse.Mount(ctx, fsys.NewTable(entry("w", w), entry("sub", newRAM())), dir, fuse.Options{})
			if err != nil {
				t.Skip(err)
			}
			if c.script != "" {
				cmd, _ := start(t, dir, c.script)
				defer func() {
					syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
					cmd.Wait()
				}()
				receive(t, w.entered, "a reader")
			}
			cancel()
			m.Wait()
			if err := m.Unmount(); err != nil {
				t.Error(err)
			}
			if names, err := os.ReadDir(dir); err != nil || len(names) > 0 {
				t.Errorf("after Unmount there are %v, %v", names, err)
			}
			nothingLeft(t)
			for len(w.entered) > 0 {
				<-w.entered
			}
		})
	}
}

func TestSomebodyElseUnmounts(t *testing.T) {
	dir := t.TempDir()
	m := mountAt(t, office(), dir, fuse.Options{})
	if err := fuse.Unmount(dir); err != nil {
		t.Fatal(err)
	}
	m.Wait()
	if err := m.Unmount(); err != nil {
		t.Error(err)
	}
	nothingLeft(t)
	if err := fuse.Unmount(dir); fsys.CodeOf(err) != fsys.Invalid || !strings.Contains(err.Error(), dir) {
		t.Errorf("unmounting twice: %v", err)
	}
}

func TestWhereNothingCanBeMounted(t *testing.T) {
	dir := t.TempDir()
	os.WriteFile(dir+"/file", nil, 0o644)
	live := mount(t, office())
	for _, c := range []struct {
		dir  string
		want fsys.Code
	}{
		{dir, fsys.NotEmpty}, {dir + "/file", fsys.NotDir}, {dir + "/nothing", fsys.NotExist}, {dir + "/no/thing", fsys.NotExist}, {live, fsys.Exist},
	} {
		m, err := fuse.Mount(t.Context(), office(), c.dir, fuse.Options{})
		if err == nil {
			m.Unmount()
		}
		if fsys.CodeOf(err) != c.want || !strings.Contains(fmt.Sprint(err), c.dir) {
			t.Errorf("Mount at %s: %v, want %v and the name", c.dir, err, c.want)
		}
	}
	if err := fuse.Unmount("/proc"); fsys.CodeOf(err) != fsys.Invalid {
		t.Errorf("Unmount of what is not ours: %v", err)
	}
}

// helper runs this test's program as another process, which does what TestMain
// has for it.
func helper(t *testing.T, words ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), "FUSE_TEST_HELPER="+strings.Join(words, "\n"))
	cmd.Stderr = os.Stderr
	return cmd
}

func TestMain(m *testing.M) {
	words := strings.Split(os.Getenv("FUSE_TEST_HELPER"), "\n")
	var err error
	switch words[0] {
	case "":
		os.Exit(m.Run())
	case "serve":
		err = serve(words[1])
	case "visit":
		err = visit(words[1])
	case "mmap":
		err = mmap(words[1])
	case "sendfile":
		err = sendfile(words[1])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// serve shows the office at dir until a line comes on standard input.
func serve(dir string) error {
	m, err := fuse.Mount(context.Background(), office(), dir, fuse.Options{})
	if err != nil {
		return err
	}
	fmt.Println("ready")
	fmt.Scanln()
	return m.Unmount()
}

// visit uses a mount of its own, and leaves it while a program is still there.
func visit(dir string) error {
	m, err := fuse.Mount(context.Background(), office(), dir, fuse.Options{})
	if err != nil {
		return err
	}
	cmd := exec.Command("bash", "-c", `cd "$0" && cat README && echo '{"a":1}' >new && stat -c %u README new && exec 1>&- && sleep 60`, dir)
	out, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		return err
	}
	if _, err := io.Copy(os.Stdout, out); err != nil {
		return err
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	if err := m.Unmount(); err != nil {
		return err
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) > 0 {
		return fmt.Errorf("still there: %v, %v", names, err)
	}
	return nil
}

func mmap(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	b, err := syscall.Mmap(int(f.Fd()), 0, 12, syscall.PROT_READ, syscall.MAP_PRIVATE)
	if err != nil {
		return err
	}
	os.Stdout.Write(b)
	return nil
}

func sendfile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	for {
		n, err := syscall.Sendfile(1, int(f.Fd()), nil, 1<<16)
		if err != nil || n == 0 {
			return err
		}
	}
}

// dead returns a directory at which a server died.
func dead(t *testing.T) string {
	dir := t.TempDir()
	cmd := helper(t, "serve", dir)
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if n, _ := out.Read(make([]byte, 6)); n != 6 {
		cmd.Wait()
		t.Skip("no mount")
	}
	t.Cleanup(func() { fuse.Unmount(dir) })
	cmd.Process.Kill()
	cmd.Wait()
	return dir
}

func TestDeadMount(t *testing.T) {
	dir := dead(t)
	if _, err := os.Stat(dir); err == nil {
		t.Fatal("the mount is alive")
	}
	_, err := fuse.Mount(t.Context(), office(), dir, fuse.Options{})
	if fsys.CodeOf(err) != fsys.Busy || !strings.Contains(err.Error(), "agentctl umount "+dir) {
		t.Errorf("Mount: %v", err)
	}
	if err := fuse.Unmount(dir); err != nil {
		t.Fatal(err)
	}
	mountAt(t, office(), dir, fuse.Options{})
}

func TestAsUser(t *testing.T) {
	need(t, "fusermount3", "unshare", "su")
	if os.Getuid() != 0 {
		t.Skip("this test is for root; for a user all the others are")
	}
	home := t.TempDir()
	dir := home + "/mnt"
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	os.Chown(dir, 65534, 65534)
	os.Chmod(filepath.Dir(home), 0o755)
	self, _ := os.Executable()
	// The device is everybody's on most machines, but not on all.
	script := `mount --make-rprivate / && mount -t tmpfs none /mnt && mknod /mnt/fuse c 10 229 && chmod 666 /mnt/fuse &&
		mount --bind /mnt/fuse /dev/fuse && cp ` + self + ` /mnt/program && chmod 755 /mnt /mnt/program || { echo skip; exit; }
		FUSE_TEST_HELPER="visit
` + dir + `" exec su -s /bin/sh nobody -c /mnt/program`
	out, err := exec.Command("unshare", "-m", "bash", "-c", script).CombinedOutput()
	if strings.HasSuffix(string(out), "skip\n") {
		t.Skipf("no such mount namespace here: %s", out)
	}
	if want := "hello\nworld\n65534\n65534\n"; err != nil || string(out) != want {
		t.Errorf("got %q, %v, want %q", out, err, want)
	}
}

func TestMmapAndSendfile(t *testing.T) {
	dir := mount(t, office())
	for _, how := range []string{"mmap", "sendfile"} {
		out, err := helper(t, how, dir+"/README").Output()
		if err != nil || string(out) != "hello\nworld\n" {
			t.Errorf("%s: %q, %v", how, out, err)
		}
	}
}

func TestOwner(t *testing.T) {
	dir := t.TempDir()
	mountAt(t, office(), dir, fuse.Options{Owner: &fuse.Owner{UID: 12, GID: 34}, FsName: "the office"})
	if got := bash(t, dir, `stat -c %u:%g README .`); got != "12:34\n12:34\n" {
		t.Errorf("got %q", got)
	}
	table, _ := os.ReadFile("/proc/self/mounts")
	if !strings.Contains(string(table), `the\040office `+dir) {
		t.Error("the name is not in the table of mounts")
	}
}

func TestCallerAndValues(t *testing.T) {
	who := &fsys.Call{Do: func(ctx context.Context, _ []byte) ([]byte, error) {
		return []byte(fsys.CallerOf(ctx) + "\n"), nil
	}}
	dir := t.TempDir()
	mountAt(t, fsys.NewTable(entry("who", who)), dir, fuse.Options{Caller: "alice"})
	if got := bash(t, dir, `exec 3<>who; echo x >&3; cat <&3`); got != "alice\n" {
		t.Errorf("got %q", got)
	}
}

func TestEditors(t *testing.T) {
	need(t, "vim")
	dir := mount(t, office())
	if got := bash(t, dir, `echo abc >goals/g; vim -es -u NONE -c '%s/b/X/' -c wq goals/g; cat goals/g; ls -A goals; vim -es -u NONE -c '%s/1/3/' -c wq config; cat config`); got !=
		"aXc\ng\n{\"a\":3}\n" {
		t.Errorf("got %q", got)
	}
}

// pattern is a lot of bytes that cost nothing.
type pattern int64

var block = bytes.Repeat([]byte("0123456789abcdef"), 1<<16)

func (p pattern) Size() int64 { return int64(p) }

func (p pattern) ReadAt(b []byte, off int64) (int, error) {
	n := 0
	for n < len(b) && off+int64(n) < int64(p) {
		n += copy(b[n:min(int64(len(b)), int64(p)-off)], block[(off+int64(n))%int64(len(block)):])
	}
	return n, nil
}

func BenchmarkRead(b *testing.B) {
	tape := fsys.NewTape(pattern(1 << 30))
	tape.End()
	dir := b.TempDir()
	m, err := fuse.Mount(context.Background(), fsys.NewTable(entry("big", tape)), dir, fuse.Options{})
	if err != nil {
		b.Skip(err)
	}
	defer m.Unmount()
	for _, script := range []string{"cat big", "dd if=big bs=1M status=none", "dd if=big bs=4k count=20000 status=none"} {
		b.Run(script, func(b *testing.B) {
			for b.Loop() {
				out, err := exec.Command("bash", "-c", `cd "$0"; `+script+` | wc -c`, dir).CombinedOutput()
				if err != nil {
					b.Fatal(string(out), err)
				}
				n, _ := strconv.Atoi(strings.TrimSpace(string(out)))
				b.SetBytes(int64(n))
			}
		})
	}
}
