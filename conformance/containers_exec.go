package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"sync"
	"time"

	"agent9/fsys"
	"agent9/providers/sandboxes"
)

var execRules = []boxRule{
	{"exit codes", inBox.exitCodes},
	{"output", inBox.output},
	{"binary output", inBox.binaryOutput},
	{"much output", inBox.muchOutput},
	{"a slow reader", inBox.slowReader},
	{"stdin", inBox.stdin},
	{"much stdin", inBox.muchStdin},
	{"stdin that nobody reads", inBox.unreadStdin},
	{"environment", inBox.environment},
	{"directory", inBox.directory},
	{"arguments", inBox.arguments},
	{"many at once", inBox.manyAtOnce},
	{"left behind", inBox.leftBehind},
	{"no command", inBox.noCommand},
	{"out fails", inBox.outFails},
	{"usage of a command", inBox.usageOfCommand},
}

func (in inBox) exitCodes() {
	for _, c := range []struct {
		script string
		code   int
		signal string
	}{
		{"exit 0", 0, ""}, {"exit 1", 1, ""}, {"exit 255", 255, ""}, {"exit 137", 137, ""},
		{"kill -TERM $$", 143, "SIGTERM"}, {"kill -KILL $$", 137, "SIGKILL"},
		{"/nosuch/program", 127, ""}, {": >not-executable; ./not-executable", 126, ""},
	} {
		if e := in.sh(c.script).exit; e.Code != c.code || e.Signal != c.signal || e.Reason != "" {
			in.Errorf("%s: %+v, want code %d, signal %q", c.script, e, c.code, c.signal)
		}
	}
	for argv, code := range map[string]int{"no-such-program": 127, "/no/such/program": 127, "./not-executable": 126, "/": 126} {
		r := in.exec(sandboxes.Command{Argv: []string{argv}}, sandboxes.Streams{})
		if r.exit.Code != code || !strings.Contains(r.err, path.Base(argv)) {
			in.Errorf("%s: %+v, %q, want code %d and a reason", argv, r.exit, r.err, code)
		}
	}
	in.must("rm not-executable")
}

// output checks what goes where. Between the writes to 1 and 2 the script
// waits for a program, so that their order is clear to everybody.
func (in inBox) output() {
	r := in.sh("echo one; sleep 0.1; echo two >&2; sleep 0.1; echo three")
	if r.out != "one\nthree\n" || r.err != "two\n" || r.all != "one\ntwo\nthree\n" {
		in.Errorf("output %q, errors %q, together %q", r.out, r.err, r.all)
	}
	if r := in.sh("printf 'no newline'"); r.all != "no newline" {
		in.Errorf("got %q", r.all)
	}
	if r := in.sh(":"); r.all != "" {
		in.Errorf("nothing was written, and %q came", r.all)
	}
}

func (in inBox) binaryOutput() {
	in.put("bytes", everyByte())
	r := in.sh("cat bytes; cat bytes >&2")
	if r.out != string(everyByte()) || r.err != string(everyByte()) {
		in.Errorf("the bytes did not come as they are: %d, %d of %d", len(r.out), len(r.err), len(everyByte()))
	}
}

// everyByte has every byte value, and more of them than a pipe has room for.
func everyByte() []byte {
	b := make([]byte, 100_000)
	for i := range b {
		b[i] = byte(i * 7 >> 3)
	}
	return b
}

func (in inBox) muchOutput() {
	const lines = 100_000
	r := in.sh(fmt.Sprintf("seq %d", lines))
	if got := strings.Count(r.out, "\n"); got != lines || !strings.HasSuffix(r.out, fmt.Sprintf("\n%d\n", lines)) {
		in.Errorf("%d lines came, want %d", got, lines)
	}
	const most = 32 << 20
	begun := time.Now()
	n := 0
	exit, err := in.box.Exec(in.Context(), shell(fmt.Sprintf("head -c %d /dev/zero", most)), sandboxes.Streams{
		Out: func(_ int, p []byte) error { n += len(p); return nil },
	})
	if err != nil || exit.Code != 0 || n != most {
		in.Errorf("%d bytes of %d, %+v, %v", n, most, exit, err)
	}
	in.Logf("output: %.0f MB/s", float64(n)/time.Since(begun).Seconds()/1e6)
}

// slowReader checks that nothing is lost when nobody takes the output for a
// while, and that another command does not wait for it.
func (in inBox) slowReader() {
	const most = 4 << 20
	gate, arrived := make(chan struct{}), make(chan struct{})
	n := 0
	var once sync.Once
	over := make(chan error, 1)
	go func() {
		_, err := in.box.Exec(in.Context(), shell(fmt.Sprintf("head -c %d /dev/zero", most)), sandboxes.Streams{
			Out: func(_ int, p []byte) error {
				once.Do(func() { close(arrived) })
				<-gate
				n += len(p)
				return nil
			},
		})
		over <- err
	}()
	select {
	case <-arrived:
	case err := <-over:
		in.Fatalf("it ended without output: %v", err)
	}
	if r := in.sh("echo other"); r.out != "other\n" {
		in.Errorf("another command meanwhile: %q", r.out)
	}
	close(gate)
	if err := <-over; err != nil || n != most {
		in.Errorf("%d bytes of %d, %v", n, most, err)
	}
}

func (in inBox) stdin() {
	for _, input := range []string{"", "one line\n", "no newline", string(everyByte())} {
		r := in.exec(sandboxes.Command{Argv: []string{"cat"}}, sandboxes.Streams{Stdin: strings.NewReader(input)})
		if r.out != input || r.exit.Code != 0 {
			in.Errorf("%d bytes of input came back as %d, %+v", len(input), len(r.out), r.exit)
		}
	}
	if r := in.sh("cat; echo end"); r.out != "end\n" {
		in.Errorf("without an input: %q", r.out)
	}
	// As it comes, not when it ends.
	reader, writer := io.Pipe()
	defer writer.Close()
	b, _ := in.start(shell("while read x; do echo got $x; done; echo end"), sandboxes.Streams{Stdin: reader})
	io.WriteString(writer, "a\n")
	b.until(in, "got a")
	io.WriteString(writer, "b\n")
	b.until(in, "got b")
	writer.Close()
	b.until(in, "end")
	b.wait(in)
}

func (in inBox) muchStdin() {
	const most = 16 << 20
	r := in.exec(sandboxes.Command{Argv: []string{"wc", "-c"}}, sandboxes.Streams{Stdin: io.LimitReader(zeros{}, most)})
	if strings.TrimSpace(r.out) != fmt.Sprint(most) {
		in.Errorf("%s bytes arrived, want %d", r.out, most)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func (in inBox) unreadStdin() {
	r := in.exec(shell("read x; echo $x"), sandboxes.Streams{Stdin: io.MultiReader(strings.NewReader("first\n"), zeros{})})
	if r.out != "first\n" || r.exit.Code != 0 {
		in.Errorf("a command that ends before its input: %q, %+v", r.out, r.exit)
	}
}

func (in inBox) environment() {
	where := in.box.Where()
	r := in.exec(sandboxes.Command{
		Argv: []string{"sh", "-c", `echo "$A|$B|$HOME"; echo "$AGENT9_ADDR"; command -v sh >/dev/null && echo path`},
		Env:  []string{"A=first", "A=with spaces = and é", "B="},
	}, sandboxes.Streams{})
	want := "with spaces = and é||" + where.Home + "\n"
	if where.Socket != "" {
		want += "unix:" + where.Socket
	}
	if want += "\npath\n"; r.out != want {
		in.Errorf("the environment is %q, want %q", r.out, want)
	}
	r = in.exec(sandboxes.Command{Argv: []string{"sh", "-c", `echo "$A|$HOME|$TMPDIR|$AGENT9_ADDR"; command -v sh >/dev/null && echo path`}, Env: []string{"A=own"}, Bare: true}, sandboxes.Streams{})
	if r.out != "own|||\npath\n" {
		in.Errorf("a bare environment is %q", r.out)
	}
}

func (in inBox) directory() {
	where := in.box.Where()
	in.must("mkdir -p 'a dir/below'")
	for dir, want := range map[string]string{
		"": where.Workspace, "a dir/below": where.Workspace + "/a dir/below",
		where.Tmp: where.Tmp, where.Workspace + "/a dir": where.Workspace + "/a dir",
	} {
		r := in.exec(sandboxes.Command{Argv: []string{"sh", "-c", "/bin/pwd -P"}, Dir: dir}, sandboxes.Streams{})
		if strings.TrimSuffix(r.out, "\n") != want {
			in.Errorf("in %q it is in %q, want %q; %s", dir, r.out, want, r.err)
		}
	}
	r := in.exec(sandboxes.Command{Argv: []string{"pwd"}, Dir: "no/such"}, sandboxes.Streams{})
	if r.exit.Code == 0 || !strings.Contains(r.err, "no/such") {
		in.Errorf("in a directory that does not exist: %+v, %q", r.exit, r.err)
	}
}

func (in inBox) arguments() {
	args := []string{"", " ", "a b", "$HOME", "*", "'\"\\", "new\nline", "é世", "-n"}
	cmd := shell(`for a; do printf '[%s]' "$a"; done`, args...)
	if want, r := "["+strings.Join(args, "][")+"]", in.exec(cmd, sandboxes.Streams{}); r.out != want {
		in.Errorf("the arguments came as %q, want %q", r.out, want)
	}
}

func (in inBox) manyAtOnce() {
	const most = 20
	var all sync.WaitGroup
	for i := range most {
		all.Go(func() {
			r, err := in.try(in.Context(), shell("cat; echo $1 >&2; exit $1", fmt.Sprint(i)), sandboxes.Streams{Stdin: strings.NewReader(fmt.Sprint("in ", i))})
			if err != nil || r.exit.Code != i || r.out != fmt.Sprint("in ", i) || r.err != fmt.Sprintln(i) {
				in.Errorf("command %d: %+v, %q, %q, %v", i, r.exit, r.out, r.err, err)
			}
		})
	}
	all.Wait()
}

// leftBehind checks that a command ends with its first process, although what
// it has begun has its output open, and that this goes on.
func (in inBox) leftBehind() {
	begun := time.Now()
	in.must(`(while :; do echo noise; echo alive >alive; sleep 0.1; done) & echo $! >pid`)
	if took := time.Since(begun); took > in.s.Bound/2 {
		in.Errorf("the command ended after %v", took)
	}
	in.must(`rm -f alive; i=0; until test -e alive; do i=$((i+1)); test $i -lt 100 || exit 1; sleep 0.1; done; kill -9 $(cat pid)`)
}

func (in inBox) noCommand() {
	for _, argv := range [][]string{nil, {""}} {
		if _, err := in.box.Exec(in.Context(), sandboxes.Command{Argv: argv}, sandboxes.Streams{}); fsys.CodeOf(err) != fsys.Invalid {
			in.Errorf("Exec %q: %v", argv, err)
		}
	}
	ctx, cancel := context.WithCancel(in.Context())
	cancel()
	if _, err := in.box.Exec(ctx, shell("echo"), sandboxes.Streams{}); !errors.Is(err, context.Canceled) {
		in.Errorf("Exec that was cancelled before: %v", err)
	}
}

func (in inBox) outFails() {
	full := fsys.E(fsys.NoSpace, "the disk is full")
	begun := time.Now()
	_, err := in.box.Exec(in.Context(), shell("echo x; sleep 1000"), sandboxes.Streams{Out: func(int, []byte) error { return full }})
	if !errors.Is(err, full) || time.Since(begun) > in.s.Bound {
		in.Errorf("a command whose output cannot be kept: %v", err)
	}
}

func (in inBox) usageOfCommand() {
	e := in.sh("sleep 0.2; i=0; while test $i -lt 20000; do i=$((i+1)); done").exit
	if e.Wall < 200*time.Millisecond || e.CPU <= 0 || e.MaxRSS <= 0 {
		in.Errorf("the usage is %+v", e)
	}
}

// put writes a file in the workspace.
func (in inBox) put(name string, data []byte) {
	in.Helper()
	dir := in.workspace()
	_, h, err := fsys.OpenCreate(in.Context(), dir, name, 0o644, fsys.Write|fsys.Trunc)
	if err != nil {
		in.Fatalf("create %q: %v", name, err)
	}
	if _, err := fsys.WriteAt(in.Context(), h, data, 0); err != nil {
		in.Fatalf("write %q: %v", name, err)
	}
	if err := fsys.Finish(in.Context(), h); err != nil {
		in.Fatalf("end %q: %v", name, err)
	}
}

// get reads a file in the workspace.
func (in inBox) get(name string) []byte {
	in.Helper()
	data, err := fsys.ReadFile(in.Context(), in.workspace(), name)
	if err != nil {
		in.Fatalf("read %q: %v", name, err)
	}
	return data
}
