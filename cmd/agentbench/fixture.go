package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"agent9/fsys"
	"agent9/fsys/ninep"
)

// The files that every server has.
const (
	smallFile = "small" // 64 bytes
	largeFile = "large" // 1 MiB
	blankFile = "blank" // to be written to
	manyDir   = "many"  // a directory of manyNames files, 64 bytes each

	smallSize = 64
	largeSize = 1 << 20
	manyNames = 1000
)

// A fixture is a file with its contents, or a directory if nil.
type fixture struct {
	path string
	data []byte
}

// fixtures has directories before what is in them.
func fixtures() []fixture {
	small := bytes.Repeat([]byte("agent9!\n"), smallSize/8)
	all := []fixture{
		{smallFile, small}, {largeFile, bytes.Repeat(small, largeSize/smallSize)}, {blankFile, []byte("\n")}, {manyDir, nil},
	}
	for i := range manyNames {
		all = append(all, fixture{fmt.Sprintf("%s/file-%04d", manyDir, i), small})
	}
	return all
}

// onDisk puts the files into a new directory, for the peers.
func onDisk(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	for _, f := range fixtures() {
		path := filepath.Join(dir, f.path)
		var err error
		if f.data == nil {
			err = os.Mkdir(path, 0o755)
		} else {
			err = os.WriteFile(path, f.data, 0o666)
		}
		if err == nil {
			err = os.Chmod(path, 0o777)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// dial is our own client, for what is prepared and not measured.
func (s *server) dial(ctx context.Context) (*ninep.Client, fsys.Node, error) {
	c, err := ninep.Dial(ctx, "unix", s.sock)
	if err != nil {
		return nil, nil, err
	}
	root, err := c.Attach(ctx, "root", "")
	if err != nil {
		c.Close()
		return nil, nil, err
	}
	return c, root, nil
}

// agentName is the agent that suites use.
const agentName = "bench"

// createAgent makes an agent and returns its tree.
func createAgent(ctx context.Context, root fsys.Node, name string) (fsys.Node, error) {
	agents, err := fsys.Walk(ctx, root, "agents")
	if err != nil {
		return nil, err
	}
	return fsys.Mkdir(ctx, agents, name, 0o755)
}

// furnish makes an agent and puts the files into its goals.
func furnish(ctx context.Context, s *server) error {
	c, root, err := s.dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	if root, err = createAgent(ctx, root, agentName); err != nil {
		return err
	}
	if root, err = fsys.Walk(ctx, root, "goals"); err != nil {
		return err
	}
	s.dir = []string{"agents", agentName, "goals"}
	var files []fixture
	for _, f := range fixtures() {
		if f.data != nil {
			files = append(files, f)
		} else if _, err := fsys.Mkdir(ctx, root, f.path, 0o755); err != nil {
			return err
		}
	}
	return together(64, len(files), func(i int) error { return put(ctx, root, files[i]) })
}

// together calls f for each number below n, by so many goroutines, and returns
// the errors.
func together(goroutines, n int, f func(i int) error) error {
	errs := make([]error, goroutines)
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for i := g; i < n && errs[g] == nil; i += goroutines {
				errs[g] = f(i)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func put(ctx context.Context, root fsys.Node, f fixture) error {
	dir, err := fsys.WalkPath(ctx, root, filepath.Dir(f.path))
	if err != nil {
		return err
	}
	_, h, err := fsys.Create(ctx, dir, filepath.Base(f.path), 0o644, fsys.Write)
	if err != nil {
		return fmt.Errorf("%s: %w", f.path, err)
	}
	if _, err := fsys.WriteAt(ctx, h, f.data, 0); err != nil {
		h.Close()
		return fmt.Errorf("%s: %w", f.path, err)
	}
	return fsys.Finish(ctx, h)
}
