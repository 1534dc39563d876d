package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// mountSuite measures what programs see of the files through FUSE, beside
// go-fuse's own example, which shows a directory of the disk, and 9pfuse, which
// mounts the same agentd.
func mountSuite(ctx context.Context, b *bench) error {
	if _, err := os.Stat("/dev/fuse"); err != nil {
		fmt.Fprintln(b.notes, "agentbench: without mounts:", err)
		return nil
	}
	dir := filepath.Join(b.dir, "fuse")
	s, err := b.startAgentd(ctx, dir)
	if err != nil {
		return err
	}
	defer s.end()
	if err := furnish(ctx, s); err != nil {
		return err
	}
	disk := filepath.Join(dir, "files")
	if err := onDisk(disk); err != nil {
		return err
	}
	agentctl, err := goBuild(ctx, b.dir, "agent9/cmd/agentctl")
	if err != nil {
		return err
	}
	below := filepath.Join(s.dir...)
	var all []mounted
	defer func() {
		for _, m := range all {
			m.end()
		}
	}()
	for _, c := range []struct {
		name, below string
		command     func(at string) (*exec.Cmd, error)
	}{
		{"mount", below, func(at string) (*exec.Cmd, error) {
			return exec.Command(agentctl, "--addr", "unix:"+s.sock, "mount", "--foreground", at), nil
		}},
		{"loopback", "", func(at string) (*exec.Cmd, error) {
			bin, err := goBuild(ctx, b.dir, "github.com/hanwen/go-fuse/v2/example/loopback")
			return exec.Command(bin, "-q", at, disk), err
		}},
		{"9pfuse", below, func(at string) (*exec.Cmd, error) {
			bin, err := exec.LookPath("9pfuse")
			return exec.Command(bin, "unix!"+s.sock, at), err
		}},
	} {
		if c.name != "mount" && !b.wantsPeer(c.name) {
			continue
		}
		m, err := mountAt(ctx, filepath.Join(dir, c.name), c.below, c.command)
		if err == nil {
			m.name = c.name
			all = append(all, m)
		} else if c.name == "mount" {
			return err
		} else {
			fmt.Fprintf(b.notes, "agentbench: without %s: %v\n", c.name, err)
		}
	}
	for _, f := range []struct {
		name string
		do   func() error
	}{
		{"cat", catSmall}, {"ls-l1000", lsMany}, {"read1M", readSequentially}, {"grep-r1000", readTree},
	} {
		var subjects []subject
		for _, m := range all {
			subjects = append(subjects, subject{name: m.name, spent: m.spent, do: func(_ context.Context, n int) error {
				if err := os.Chdir(m.files); err != nil { // names are as short for each
					return err
				}
				defer os.Chdir("/")
				for range n {
					if err := f.do(); err != nil {
						return err
					}
				}
				return nil
			}})
		}
		if err := b.byTurns(ctx, "mount/"+f.name, subjects, aim{"loopback", 2}, aim{"9pfuse", 0.5}); err != nil {
			return err
		}
	}
	return nil
}

// A mounted is a file system that a process serves.
type mounted struct {
	name  string
	at    string
	files string // the directory of the files
	*process
}

func mountAt(ctx context.Context, at, below string, command func(at string) (*exec.Cmd, error)) (m mounted, err error) {
	cmd, err := command(at)
	if err == nil {
		err = os.Mkdir(at, 0o755)
	}
	if err != nil {
		return m, err
	}
	m = mounted{at: at, files: filepath.Join(at, below)}
	m.process, err = launch(ctx, cmd, at+".log", func() error {
		_, err := os.Stat(filepath.Join(m.files, smallFile))
		return err
	})
	return m, err
}

// end unmounts, which ends the process.
func (m mounted) end() {
	for _, name := range []string{"fusermount3", "fusermount"} {
		if exec.Command(name, "-u", "-z", m.at).Run() == nil {
			break
		}
	}
	select {
	case <-m.exited:
	case <-time.After(2 * time.Second):
		m.process.end()
	}
}

func catSmall() error { return cat(smallFile) }

func cat(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	var b [4096]byte
	for {
		if _, err := f.Read(b[:]); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// lsMany asks for the attributes of each name, as ls -l does.
func lsMany() error {
	entries, err := os.ReadDir(manyDir)
	if err == nil && len(entries) != manyNames {
		err = fmt.Errorf("%d names", len(entries))
	}
	for _, e := range entries {
		if _, ierr := e.Info(); ierr != nil {
			return ierr
		}
	}
	return err
}

func readSequentially() error {
	f, err := os.Open(largeFile)
	if err != nil {
		return err
	}
	defer f.Close()
	n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, f, make([]byte, 128<<10))
	if err == nil && n != largeSize {
		err = errors.New("the file is short")
	}
	return err
}

// readTree reads every file of a directory, as grep -r does.
func readTree() error {
	return filepath.WalkDir(manyDir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		return cat(path)
	})
}
