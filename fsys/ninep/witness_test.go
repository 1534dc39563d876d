//go:build !plan9

package ninep

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	nine "9fans.net/go/plan9"
	"9fans.net/go/plan9/client"
	linuxno "github.com/hugelgupf/p9/linux"
	"github.com/hugelgupf/p9/p9"

	"agent9/fsys"
)

// The clients of others are witnesses that this package's codec and server do
// not merely agree with each other.

func witnessTree(t *testing.T) (d *disk, tape *fsys.Tape, mem *fsys.Memory, addr string) {
	d, mem = newDisk(), new(fsys.Memory)
	tape = fsys.NewTape(mem)
	d.files["stream"] = tape
	d.files["hello"] = fsys.Const("hello, world\n")
	d.files["rpc"] = &fsys.Call{Do: func(_ context.Context, req []byte) ([]byte, error) {
		if string(req) == "refuse" {
			return nil, fsys.E(fsys.Exhausted, "no money")
		}
		return []byte(strings.ToUpper(string(req))), nil
	}}
	_, addr = serveTree(t, d)
	return d, tape, mem, addr
}

func TestHugelgupfClient(t *testing.T) {
	d, tape, mem, addr := witnessTree(t)
	conn, err := net.Dial("unix", addr)
	if err != nil {
		t.Fatal(err)
	}
	c, err := p9.NewClient(conn)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	root, err := c.Attach("")
	if err != nil {
		t.Fatal(err)
	}
	open := func(name string, flags p9.OpenFlags) p9.File {
		t.Helper()
		_, f, err := root.Walk([]string{name})
		if err != nil {
			t.Fatal(name, err)
		}
		if _, _, err := f.Open(flags); err != nil {
			t.Fatal(name, err)
		}
		return f
	}
	f := open("hello", p9.ReadOnly)
	b := make([]byte, 100)
	if n, err := f.ReadAt(b, 0); err != nil && err != io.EOF || string(b[:n]) != "hello, world\n" {
		t.Errorf("hello: %q %v", b[:n], err)
	}
	if _, _, attr, err := f.GetAttr(p9.AttrMaskAll); err != nil || attr.Size != 13 || !attr.Mode.IsRegular() {
		t.Errorf("getattr: %+v %v", attr, err)
	}
	f.Close()

	_, dir, _ := root.Walk(nil)
	created, _, _, err := dir.Create("new", p9.ReadWrite, 0o640, p9.NoUID, p9.NoGID)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := created.WriteAt([]byte("content"), 0); err != nil {
		t.Error(err)
	}
	if err := created.SetAttr(p9.SetAttrMask{Size: true}, p9.SetAttr{Size: 3}); err != nil {
		t.Error(err)
	}
	if err := created.FSync(); err != nil {
		t.Error(err)
	}
	if got := string(d.file(t, "new").b); got != "con" {
		t.Errorf("new holds %q", got)
	}
	if _, err := root.Mkdir("dir", 0o755, p9.NoUID, p9.NoGID); err != nil {
		t.Error(err)
	}
	if err := root.RenameAt("new", root, "newer"); err != nil {
		t.Error(err)
	}
	if err := root.UnlinkAt("newer", 0); err != nil {
		t.Error(err)
	}
	if err := root.UnlinkAt("dir", 0); !errors.Is(err, linuxno.EISDIR) {
		t.Errorf("unlink of a directory: %v", err)
	}
	if _, err := root.Symlink("a", "b", p9.NoUID, p9.NoGID); !errors.Is(err, linuxno.EOPNOTSUPP) {
		t.Errorf("symlink: %v", err)
	}
	if st, err := root.StatFS(); err != nil || st.Type != remoteFS {
		t.Errorf("statfs: %+v %v", st, err)
	}

	_, list, _ := root.Walk(nil)
	if _, _, err := list.Open(p9.ReadOnly); err != nil {
		t.Fatal(err)
	}
	entries, err := list.Readdir(0, 8000)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name)
	}
	if got := strings.Join(names, " "); got != "dir hello rpc" || err != nil {
		t.Errorf("readdir: %s %v", got, err)
	}

	rpc := open("rpc", p9.ReadWrite)
	if _, err := rpc.WriteAt([]byte("shout"), 0); err != nil {
		t.Error(err)
	}
	if n, err := rpc.ReadAt(b, 5); string(b[:n]) != "SHOUT" {
		t.Errorf("rpc: %q %v", b[:n], err)
	}
	if _, err := rpc.WriteAt([]byte("refuse"), 0); err != nil {
		t.Error(err)
	}
	if err := rpc.FSync(); !errors.Is(err, linuxno.EDQUOT) {
		t.Errorf("a refusal: %v", err)
	}

	s := open("stream", p9.ReadOnly)
	grow := time.AfterFunc(time.Millisecond, func() { mem.Append([]byte("tick")); tape.Grown() })
	defer grow.Stop()
	if n, err := s.ReadAt(b, 0); string(b[:n]) != "tick" {
		t.Errorf("stream: %q %v", b[:n], err)
	}
}

func TestPlan9Client(t *testing.T) {
	d, tape, mem, addr := witnessTree(t)
	c, err := client.Dial("unix", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Auth("glenda", ""); err == nil || err.Error() != "authentication not required" {
		t.Errorf("auth: %v", err)
	}
	fs, err := c.Attach(nil, "glenda", "")
	if err != nil {
		t.Fatal(err)
	}
	f, err := fs.Open("hello", nine.OREAD)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(f); err != nil || string(b) != "hello, world\n" {
		t.Errorf("hello: %q %v", b, err)
	}
	f.Close()
	if st, err := fs.Stat("hello"); err != nil || st.Name != "hello" || st.Length != 13 || st.Mode != 0o444 {
		t.Errorf("stat: %v %v", st, err)
	}
	if f, err = fs.Create("new", nine.ORDWR, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte("content")); err != nil {
		t.Error(err)
	}
	var st nine.Dir
	st.Null()
	st.Length = 3
	if err := f.Wstat(&st); err != nil {
		t.Error(err)
	}
	st.Null()
	st.Name = "newer"
	if err := f.Wstat(&st); err != nil {
		t.Error(err)
	}
	if got := string(d.file(t, "newer").b); got != "con" {
		t.Errorf("newer holds %q", got)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if err := fs.Remove("newer"); err != nil {
		t.Error(err)
	}
	if f, err = fs.Create("dir", nine.OREAD, nine.DMDIR|0o755); err != nil {
		t.Error(err)
	}
	f.Close()
	if f, err = fs.Open("/", nine.OREAD); err != nil {
		t.Fatal(err)
	}
	entries, err := f.Dirreadall()
	var names []string
	for _, e := range entries {
		names = append(names, e.Name)
	}
	if got := strings.Join(names, " "); got != "dir hello rpc" || err != nil {
		t.Errorf("directory: %s %v", got, err)
	}

	if f, err = fs.Open("rpc", nine.ORDWR); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 100)
	if _, err := f.Write([]byte("shout")); err != nil {
		t.Error(err)
	}
	if n, err := f.Read(b); string(b[:n]) != "SHOUT" {
		t.Errorf("rpc: %q %v", b[:n], err)
	}
	if _, err := f.Write([]byte("refuse")); err != nil {
		t.Error(err)
	}
	if _, err := f.Read(b); err == nil || err.Error() != "permission denied: budget exceeded: no money" {
		t.Errorf("a refusal: %v", err)
	}
	if f, err = fs.Open("stream", nine.OREAD); err != nil {
		t.Fatal(err)
	}
	grow := time.AfterFunc(time.Millisecond, func() { mem.Append([]byte("tick")); tape.Grown() })
	defer grow.Stop()
	if n, err := f.Read(b); string(b[:n]) != "tick" {
		t.Errorf("stream: %q %v", b[:n], err)
	}
}
