package main

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A mount of agentctl outlives the daemon: programs wait, or get EIO, and nothing
// that they write lands in the directory below.
func TestMountOutlivesItsDaemon(t *testing.T) {
	for name, end := range map[string]func(*daemon){
		"kill -9":      (*daemon).kill,
		"end in order": func(d *daemon) { d.signal(syscall.SIGTERM); d.ends(limit) },
	} {
		t.Run(name, func(t *testing.T) {
			d := startDaemon(t)
			d.root().mkdir("agents", "alice")
			dir := filepath.Join(t.TempDir(), "mnt")
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			needFUSE(t)
			if out, ok := ctl(t, "unix:"+d.sock(), "", "mount", dir, "alice"); !ok {
				t.Fatal(out)
			}
			t.Cleanup(func() { ctl(t, "unix:"+d.sock(), "", "umount", dir) })
			write := func(text string) error { return os.WriteFile(filepath.Join(dir, "goals/plan"), []byte(text), 0o644) }
			if err := write("before"); err != nil {
				t.Fatal(err)
			}
			open, err := os.Open(filepath.Join(dir, "goals/plan"))
			if err != nil {
				t.Fatal(err)
			}
			defer open.Close()
			inside := exec.Command("bash", "-c", `read -r _; cat goals/plan && cat ../mnt/goals/plan && echo from inside >goals/more`)
			inside.Dir = dir
			goOn, err := inside.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			said := new(strings.Builder)
			inside.Stdout, inside.Stderr = said, said
			if err := inside.Start(); err != nil {
				t.Fatal(err)
			}

			end(d)
			waited := make(chan error, 1)
			go func() { waited <- write("while it was away") }()
			d.start()
			select {
			case err := <-waited: // it may have been sent before the loss was known
				if err != nil && !errors.Is(err, syscall.EIO) && !errors.Is(err, syscall.EREMOTEIO) {
					t.Errorf("a write meanwhile: %v", err)
				}
			case <-time.After(limit):
				t.Fatal("a write meanwhile does not return")
			}
			eventually(t, "it is written again", func() bool { return write("after") == nil })
			if got := d.at("/agents/alice").read("goals/plan"); got != "after" {
				t.Errorf("the daemon has %q", got)
			}
			if _, err := open.ReadAt(make([]byte, 8), 0); err == nil || err == io.EOF {
				t.Errorf("a file of the old daemon: %v, want that it fails", err)
			}
			open.Close()
			io.WriteString(goOn, "\n")
			if err := inside.Wait(); err != nil || said.String() != "afterafter" {
				t.Errorf("a shell that was inside: %v, %q", err, said)
			}

			end(d)
			eventually(t, "EIO", func() bool { return errors.Is(write("lost"), syscall.EIO) })
			began := time.Now()
			if _, err := os.ReadFile(filepath.Join(dir, "status")); !errors.Is(err, syscall.EIO) || time.Since(began) > 4*time.Second {
				t.Errorf("later on: %v after %v, want EIO at once", err, time.Since(began))
			}
			if out, ok := ctl(t, "unix:"+d.sock(), "", "umount", dir); !ok {
				t.Error(out)
			}
			if below, err := os.ReadDir(dir); err != nil || len(below) > 0 {
				t.Errorf("below the mount: %v, %v", below, err)
			}
		})
	}
}
