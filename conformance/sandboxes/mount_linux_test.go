package sandboxes

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

	"agent9/conformance/daemon"
	"agent9/fsys/export/fuse"
)

// A mount of agentctl outlives the daemon: programs wait, or get EIO, and nothing
// that they write lands in the directory below.
func TestMountOutlivesItsDaemon(t *testing.T) {
	for name, end := range map[string]func(*daemon.Daemon){
		"kill -9":      (*daemon.Daemon).Kill,
		"end in order": func(d *daemon.Daemon) { d.Signal(syscall.SIGTERM); d.Ends(daemon.Limit) },
	} {
		t.Run(name, func(t *testing.T) {
			d := daemon.Start(t)
			d.Root().Mkdir("agents", "alice")
			dir := filepath.Join(t.TempDir(), "mnt")
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			daemon.NeedFUSE(t)
			if out, ok := daemon.Ctl(t, "unix:"+d.Sock(), "", "mount", dir, "alice"); !ok {
				t.Fatal(out)
			}
			t.Cleanup(func() { fuse.Unmount(dir) })
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
			d.Start()
			select {
			case err := <-waited: // it may have been sent before the loss was known
				if err != nil && !errors.Is(err, syscall.EIO) && !errors.Is(err, syscall.EREMOTEIO) {
					t.Errorf("a write meanwhile: %v", err)
				}
			case <-time.After(daemon.Limit):
				t.Fatal("a write meanwhile does not return")
			}
			daemon.Eventually(t, "it is written again", func() bool { return write("after") == nil })
			if got := d.At("/agents/alice").Read("goals/plan"); got != "after" {
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
			daemon.Eventually(t, "EIO", func() bool { return errors.Is(write("lost"), syscall.EIO) })
			daemon.Eventually(t, "EIO at once", func() bool {
				began := time.Now()
				_, err := os.ReadFile(filepath.Join(dir, "status"))
				return errors.Is(err, syscall.EIO) && time.Since(began) < 4*time.Second // not after the wait for its return
			})
			if out, ok := daemon.Ctl(t, "unix:"+d.Sock(), "", "umount", dir); !ok {
				t.Error(out)
			}
			if below, err := os.ReadDir(dir); err != nil || len(below) > 0 {
				t.Errorf("below the mount: %v, %v", below, err)
			}
		})
	}
}

// A secret can be made through a mount, by the ways in which programs make files.
func TestSecretsThroughAMount(t *testing.T) {
	daemon.NeedFUSE(t)
	d := daemon.Start(t)
	d.Root().Mkdir("agents", "alice")
	dir := filepath.Join(t.TempDir(), "mnt")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if out, ok := daemon.Ctl(t, "unix:"+d.Sock(), "", "mount", dir, "alice"); !ok {
		t.Fatal(out)
	}
	t.Cleanup(func() { fuse.Unmount(dir) })
	for name, script := range map[string]string{
		"ECHO":  `echo value-of-it >secrets/ECHO`,
		"CP":    `echo value-of-it >$0; cp $0 secrets/CP`,
		"DD":    `echo value-of-it | dd of=secrets/DD status=none`,
		"AGAIN": `echo value-of-it >secrets/AGAIN; echo another-value >secrets/AGAIN`,
	} {
		cmd := exec.Command("bash", "-e", "-c", script, filepath.Join(t.TempDir(), "f"))
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%s: %v, %s", script, err, out)
		}
		if _, err := os.Stat(filepath.Join(dir, "secrets", name)); err != nil {
			t.Error(err)
		}
	}
	// The kernel lets go of a file some time after close has returned.
	cmd := exec.Command("bash", "-c", `: >secrets/EMPTY; for i in {1..300}; do test -e secrets/EMPTY || break; sleep 0.1; done; test -e secrets/EMPTY || echo none; echo x >secrets/-bad; ls secrets; cat secrets/ECHO; rm secrets/*; ls secrets`)
	cmd.Dir = dir
	out, _ := cmd.CombinedOutput()
	daemon.Equal(t, "the rest", string(out), "none\nbash: line 1: secrets/-bad: Invalid argument\nAGAIN\nCP\nDD\nECHO\ncat: secrets/ECHO: Permission denied\n")
}

// What a mount left when it was killed is no obstacle to the next one.
func TestMountOverADeadMount(t *testing.T) {
	d, in := daemon.WithMount(t)
	for range 2 {
		d.Kill()
		if _, err := os.Stat(in("")); !errors.Is(err, syscall.ENOTCONN) {
			t.Fatalf("a mount whose daemon was killed: %v", err)
		}
		d.Start()
		if _, err := os.Stat(in("agents/alice")); err != nil {
			t.Error(err)
		}
	}
}
