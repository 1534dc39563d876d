//go:build unix

package fake

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"agent9/fsys"
	"agent9/providers/sandboxes"
	"agent9/providers/sandboxes/box"
)

// sandbox is a folder.
type sandbox struct {
	provider *Provider
	id, dir  string
}

func (s *sandbox) ID() string { return s.id }

func (s *sandbox) Name(context.Context) (string, error) {
	spec, err := s.spec()
	if errors.Is(err, fs.ErrNotExist) {
		return "", fsys.E(fsys.NotExist, "there is no such sandbox")
	}
	return spec.Name, err
}

func (s *sandbox) spec() (spec sandboxes.Spec, err error) {
	text, err := os.ReadFile(filepath.Join(s.dir, specFile))
	if err == nil {
		err = json.Unmarshal(text, &spec)
	}
	return spec, err
}

// lend makes the folder, with the workspace of this name if there is one.
func (s *sandbox) lend(name string) error {
	if name != "" && s.provider.inUse(name) {
		return fsys.E(fsys.Busy, "the workspace is in use by another sandbox")
	}
	if err := os.Mkdir(s.dir, 0o755); err != nil {
		return err
	}
	if name == "" {
		return nil
	}
	if err := os.MkdirAll(s.provider.workspaceDir(name), 0o755); err != nil {
		return err
	}
	return os.Rename(s.provider.workspaceDir(name), filepath.Join(s.dir, workspace))
}

func (s *sandbox) writeSkills(files []sandboxes.File) error {
	skills := filepath.Join(s.dir, workspace, "skills")
	if err := os.RemoveAll(skills); err != nil {
		return err
	}
	for _, f := range files {
		if !filepath.IsLocal(f.Name) {
			return fsys.E(fsys.Invalid, "a skill cannot be called "+f.Name)
		}
		name := filepath.Join(skills, f.Name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(name, f.Data, 0o444); err != nil {
			return err
		}
	}
	return nil
}

func (s *sandbox) setup() sandboxes.Setup {
	at := func(name string) string { return filepath.Join(s.dir, name) }
	return sandboxes.Setup{Confined: true, Where: sandboxes.Where{
		Root: s.dir, Workspace: at(workspace), Home: at(workspace), Tmp: at("tmp"), Skills: at("workspace/skills"),
		Socket: at("run/agent.sock"), Helper: s.provider.opts.Helper,
	}}
}

func (s *sandbox) Start(ctx context.Context) (net.Conn, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	p := s.provider
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.runs[s.id] != nil {
		return nil, fsys.E(fsys.Busy, "the sandbox is already running")
	}
	if _, err := s.spec(); err != nil {
		return nil, fsys.E(fsys.NotExist, "the sandbox was removed")
	}
	begin := s.inside
	if p.opts.Helper != "" {
		begin = s.child
	}
	r, err := begin()
	if err != nil {
		return nil, fsys.Wrap(fsys.Unavailable, "the box", err)
	}
	p.runs[s.id] = r
	return r.conn, nil
}

// inside runs the box in this process.
func (s *sandbox) inside() (*running, error) {
	ours, theirs := net.Pipe()
	r := &running{conn: ours, kill: func() { theirs.Close() }, done: make(chan struct{}), begun: time.Now()}
	go func() { // ends with the connection
		defer close(r.done)
		defer s.ended(r)
		defer theirs.Close()
		box.Serve(context.Background(), theirs, s.setup(), box.Own{})
	}()
	return r, nil
}

// child runs the box as a process.
func (s *sandbox) child() (*running, error) {
	argv := s.setup().Argv(s.provider.opts.Helper)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	cmd.Stderr = os.Stderr
	ours, theirs, err := pair()
	if err != nil {
		return nil, err
	}
	cmd.Stdin, cmd.Stdout = theirs, theirs
	err = cmd.Start()
	theirs.Close()
	if err != nil {
		ours.Close()
		return nil, err
	}
	r := &running{conn: ours, kill: func() {}, done: make(chan struct{}), begun: time.Now()}
	go func() { // ends with the process
		defer close(r.done)
		defer s.ended(r)
		defer ours.Close()
		cmd.Wait()
	}()
	return r, nil
}

// pair returns the two ends of a connection, one of them for a child.
func pair() (net.Conn, *os.File, error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		return nil, nil, err
	}
	syscall.CloseOnExec(fds[0])
	syscall.CloseOnExec(fds[1])
	f := os.NewFile(uintptr(fds[0]), "box")
	defer f.Close()
	conn, err := net.FileConn(f)
	theirs := os.NewFile(uintptr(fds[1]), "daemon")
	if err != nil {
		theirs.Close()
	}
	return conn, theirs, err
}

// ended adds up what the run has used.
func (s *sandbox) ended(r *running) {
	s.provider.mu.Lock()
	defer s.provider.mu.Unlock()
	u := s.used()
	u.Wall += time.Since(r.begun)
	if text, err := json.Marshal(u); err == nil {
		os.WriteFile(filepath.Join(s.dir, usageFile), text, 0o644)
	}
	if s.provider.runs[s.id] == r {
		delete(s.provider.runs, s.id)
	}
}

// used is the usage of the runs that have ended.
func (s *sandbox) used() (u sandboxes.Usage) {
	if text, err := os.ReadFile(filepath.Join(s.dir, usageFile)); err == nil {
		json.Unmarshal(text, &u)
	}
	return u
}

func (s *sandbox) Stop(context.Context) error {
	s.provider.mu.Lock()
	r := s.provider.runs[s.id]
	s.provider.mu.Unlock()
	if r != nil {
		r.end()
	}
	return nil
}

func (s *sandbox) Remove(ctx context.Context) error {
	if err := s.Stop(ctx); err != nil {
		return err
	}
	s.provider.mu.Lock()
	defer s.provider.mu.Unlock()
	spec, err := s.spec()
	if err != nil {
		return fsys.E(fsys.NotExist, "there is no such sandbox")
	}
	return s.removeFiles(spec.Workspace)
}

// removeFiles gives back the workspace of this name and removes the rest.
func (s *sandbox) removeFiles(name string) error {
	if name != "" {
		lent := filepath.Join(s.dir, workspace)
		if _, err := os.Stat(lent); err == nil {
			if err := os.Rename(lent, s.provider.workspaceDir(name)); err != nil {
				return err
			}
		}
	}
	return os.RemoveAll(s.dir)
}

func (s *sandbox) Usage(context.Context) (sandboxes.Usage, error) {
	if s.provider.opts.Usage != nil {
		return s.provider.opts.Usage(), nil
	}
	s.provider.mu.Lock()
	defer s.provider.mu.Unlock()
	u := s.used()
	if r := s.provider.runs[s.id]; r != nil {
		u.Wall += time.Since(r.begun)
	}
	return u, nil
}
