//go:build linux && !386 && !arm && !mips && !mipsle

package fuse_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"agent9/fsys/export/fuse"
)

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
	mountAt(t, office(), dir, fuse.Options{})
	if _, err := os.Stat(dir + "/README"); err != nil {
		t.Error(err)
	}
	gone := dead(t)
	if err := fuse.Unmount(gone); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(gone); err != nil {
		t.Error(err)
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
