package sandboxes_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"agent9/fsys"
	"agent9/fsys/ninep"
	"agent9/namespace/budget"
	"agent9/providers/sandboxes"
)

// A single is a provider of one sandbox, at whose other end is serve.
type single struct {
	sandboxes.Provider
	serve   func(conn net.Conn)
	removed int
}

func (s *single) Create(context.Context, sandboxes.Spec, func(string)) (sandboxes.Sandbox, error) {
	return s, nil
}
func (s *single) ID() string { return "one" }

func (s *single) Name(context.Context) (string, error)                 { return "", nil }
func (s *single) Stop(context.Context) error                           { return nil }
func (s *single) Remove(context.Context) error                         { s.removed++; return nil }
func (s *single) Usage(context.Context) (u sandboxes.Usage, err error) { return u, nil }

func (s *single) Start(context.Context) (net.Conn, error) {
	ours, theirs := net.Pipe()
	go func() { // ends with the connection
		defer theirs.Close()
		s.serve(theirs)
	}()
	return ours, nil
}

// soon bounds what a test waits for.
const soon = 10 * time.Second

// create makes the sandbox at whose other end is serve.
func create(t *testing.T, ctx context.Context, serve func(net.Conn)) (*sandboxes.Box, *single, error) {
	s := &single{serve: serve}
	box, err := sandboxes.NewRunner("single", s).Create(ctx, new(budget.Hold), sandboxes.Spec{}, nil)
	if err == nil {
		t.Cleanup(func() { box.Remove(context.WithoutCancel(t.Context())) })
	}
	return box, s, err
}

// tree serves root as a box would.
func tree(root fsys.Node) func(net.Conn) {
	return func(conn net.Conn) {
		server := &ninep.Server{Attach: func(context.Context, ninep.Peer, string, string) (ninep.Grant, error) {
			return ninep.Grant{Root: root}, nil
		}}
		server.ServeConn(conn)
	}
}

// says sends what r has, whatever it is asked.
func says(r io.Reader) func(net.Conn) {
	return func(c net.Conn) {
		go io.Copy(io.Discard, c) // ends with the connection
		io.Copy(c, r)
	}
}

func entry(name string, n fsys.Node) fsys.Entry { return fsys.Entry{Name: name, Node: n} }

const goodInfo = `{"protocol":1,"where":{"root":"/","workspace":"/workspace"}}` + "\n"

func TestNoBoxAtTheOtherEnd(t *testing.T) {
	for name, serve := range map[string]func(net.Conn){
		"nothing":         func(net.Conn) {},
		"garbage":         says(strings.NewReader(strings.Repeat("garbage ", 1000))),
		"endless garbage": says(endless{}),
		"an empty tree":   tree(fsys.NewTable()),
		"no JSON":         tree(fsys.NewTable(entry("info", fsys.Const("what?\n")))),
		"another version": tree(fsys.NewTable(entry("info", fsys.Const(`{"protocol":99}`+"\n")))),
		"a long story":    tree(fsys.NewTable(entry("info", fsys.Const(strings.Repeat("x", 1<<20))))),
		"an endless info": tree(fsys.NewTable(entry("info", stream{endless{}}))),
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), soon)
			defer cancel()
			_, s, err := create(t, ctx, serve)
			if fsys.CodeOf(err) != fsys.Unavailable && fsys.CodeOf(err) != fsys.NotExist && fsys.CodeOf(err) != fsys.Unsupported {
				t.Errorf("Create: %v", err)
			}
			if s.removed != 1 {
				t.Errorf("it was removed %d times", s.removed)
			}
		})
	}
}

func TestBoxThatDoesNotAnswer(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	begun := time.Now()
	_, s, err := create(t, ctx, func(c net.Conn) { io.Copy(io.Discard, c) })
	if !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) > soon || s.removed != 1 {
		t.Errorf("after %v: %v, removed %d times", time.Since(begun), err, s.removed)
	}
}

// endless is zeros.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'z'
	}
	return len(p), nil
}

// stream is a Stream of what r has.
type stream struct{ r io.Reader }

func (stream) Stat(context.Context) (fsys.Info, error) {
	return fsys.Info{Kind: fsys.Stream, Perm: 0o444}, nil
}
func (s stream) Open(context.Context, fsys.Flag) (fsys.Handle, error) { return s, nil }
func (s stream) Close() error                                         { return nil }
func (s stream) ReadAt(_ context.Context, p []byte, _ int64) (int, error) {
	return s.r.Read(p)
}

// silent is a Stream that says nothing until the reader gives up.
type silent struct{ stream }

func (s silent) Open(context.Context, fsys.Flag) (fsys.Handle, error) { return s, nil }
func (silent) ReadAt(ctx context.Context, _ []byte, _ int64) (int, error) {
	<-ctx.Done()
	return 0, ctx.Err()
}

func reply(s string) fsys.Node {
	return &fsys.Call{Do: func(context.Context, []byte) ([]byte, error) { return []byte(s), nil }}
}

// boxOf is a box whose commands are what is given.
func boxOf(number string, out, wait fsys.Node) *fsys.Table {
	return fsys.NewTable(
		entry("info", fsys.Const(goodInfo)),
		entry("run", fsys.NewTable(entry("new", reply(number)), entry("1", fsys.NewTable(entry("out", out), entry("wait", wait))))),
		entry("calls", fsys.NewTable(entry("new", stream{endless{}}))),
		entry("files", fsys.NewTable()),
	)
}

func TestCommandsOfAHostileBox(t *testing.T) {
	frame := func(fd byte, n string, text string) fsys.Node { return fsys.Const(string(fd) + n + text) }
	fine := fsys.Const(`{"code":0}` + "\n")
	for name, root := range map[string]fsys.Node{
		"no number":           boxOf("../../files", fsys.Const(""), fine),
		"no such command":     boxOf("7", fsys.Const(""), fine),
		"a long number":       boxOf(strings.Repeat("1", 1000), fsys.Const(""), fine),
		"a frame of nobody":   boxOf("1", frame(3, "\x00\x00\x00\x01", "x"), fine),
		"a frame too long":    boxOf("1", frame(1, "\xff\xff\xff\xff", "x"), fine),
		"endless output":      boxOf("1", stream{endless{}}, fine),
		"an exit of no sense": boxOf("1", fsys.Const(""), fsys.Const("?\n")),
		"an endless exit":     boxOf("1", fsys.Const(""), stream{endless{}}),
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), soon)
			defer cancel()
			box, _, err := create(t, ctx, tree(root))
			if err != nil {
				t.Fatal(err)
			}
			exit, err := box.Exec(ctx, sandboxes.Command{Argv: []string{"x"}}, sandboxes.Streams{Stdin: endless{}})
			if err == nil || ctx.Err() != nil {
				t.Errorf("Exec: %+v, %v, %v", exit, err, ctx.Err())
			}
		})
	}
}

// TestExecEndsWithItsContext has a box that takes the order and says nothing
// more.
func TestExecEndsWithItsContext(t *testing.T) {
	box, _, err := create(t, t.Context(), tree(boxOf("1", silent{}, silent{})))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	over := make(chan error, 1)
	go func() {
		_, err := box.Exec(ctx, sandboxes.Command{Argv: []string{"x"}}, sandboxes.Streams{})
		over <- err
	}()
	select {
	case err := <-over:
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	case <-time.After(soon):
		t.Fatal("Exec does not end")
	}
}

// TestPiecesOfFrames gives the output one byte at a time.
func TestPiecesOfFrames(t *testing.T) {
	var text []byte
	for _, p := range []string{"one", "", strings.Repeat("long", 10000), "\x00\x01\xff"} {
		text = sandboxes.AppendFrame(text, 1, []byte(p))
		text = sandboxes.AppendFrame(text, 2, []byte("e"))
	}
	var outs [3]bytes.Buffer
	box, _, err := create(t, t.Context(), tree(boxOf("1", stream{io.MultiReader(bytes.NewReader(text[:7]), &byteReader{text[7:]})}, fsys.Const(`{"code":5,"signal":"X"}`+"\n"))))
	if err != nil {
		t.Fatal(err)
	}
	exit, err := box.Exec(t.Context(), sandboxes.Command{Argv: []string{"x"}}, sandboxes.Streams{Out: func(fd int, p []byte) error {
		outs[fd].Write(p)
		return nil
	}})
	if want := "one" + strings.Repeat("long", 10000) + "\x00\x01\xff"; err != nil || exit.Code != 5 || outs[1].String() != want || outs[2].String() != "eeee" {
		t.Errorf("%+v, %v, %d bytes, %q", exit, err, outs[1].Len(), outs[2].String())
	}
}

// byteReader gives a few bytes at a time.
type byteReader struct{ rest []byte }

func (b *byteReader) Read(p []byte) (int, error) {
	if len(b.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), 11)], b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// TestNothingIsLeft ends runs in several ways and looks for goroutines.
func TestNothingIsLeft(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 20 {
		box, _, err := create(t, t.Context(), tree(boxOf("1", silent{}, silent{})))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		box.Exec(ctx, sandboxes.Command{Argv: []string{"x"}}, sandboxes.Streams{})
		cancel()
		if err := box.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		<-box.Done()
	}
	for deadline := time.Now().Add(soon); runtime.NumGoroutine() > before+5; {
		if time.Now().After(deadline) {
			buf := make([]byte, 1<<16)
			t.Fatalf("%d goroutines, %d before\n%s", runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
		}
		<-time.After(10 * time.Millisecond)
	}
}
