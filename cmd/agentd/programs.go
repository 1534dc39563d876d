package main

import (
	"context"
	"os"
	"path/filepath"

	"agent9/fsys"
	"agent9/fsys/export/fuse"
	"agent9/fsys/locks"
	"agent9/providers/programs"
	"agent9/providers/programs/exec"
	"agent9/providers/programs/golang"
	"agent9/providers/programs/http"
)

// goPrograms are the agents that are compiled in, by the name that config has
// for them. Another one is a line here.
func goPrograms() golang.Table {
	return golang.Table{
		"echo": golang.Echo{},
	}
}

// makePrograms returns what makes agents' programs, for the daemon whose data
// is in the directory data, which no other daemon uses.
func makePrograms(data string) func(programs.Spec) (programs.Program, error) {
	commands, compiled := exec.New(data), goPrograms()
	return func(spec programs.Spec) (programs.Program, error) {
		switch {
		case spec.Exec != "":
			return commands.Program(spec), nil
		case spec.HTTP != nil:
			return http.New(*spec.HTTP, nil), nil
		case spec.Go != "":
			return compiled.New(spec.Go)
		}
		return nil, fsys.E(fsys.Invalid, "program: want one of exec, http, go, container")
	}
}

// mountTick mounts what an agent sees in a tick on a new directory below data.
// Mounts and directories that an earlier daemon left there are removed.
func mountTick(ctx context.Context, data string, locked *locks.Table) func(name string, root fsys.Node) (dir string, done func(), err error) {
	dirs := filepath.Join(data, "mounts")
	stale, _ := os.ReadDir(dirs) // none, at first
	for _, d := range stale {
		at := filepath.Join(dirs, d.Name())
		fuse.Unmount(at)
		os.Remove(at)
	}
	return func(name string, root fsys.Node) (string, func(), error) {
		err := os.MkdirAll(dirs, 0o700)
		dir := ""
		if err == nil {
			dir, err = os.MkdirTemp(dirs, "")
		}
		if err != nil {
			return "", nil, fsys.Wrap(fsys.Unavailable, "a directory to mount on", err)
		}
		m, err := fuse.Mount(ctx, root, dir, fuse.Options{Caller: fsys.Caller(name), Locks: locked})
		if err != nil {
			os.Remove(dir)
			return "", nil, err
		}
		return dir, func() {
			m.Unmount()
			os.Remove(dir)
		}, nil
	}
}
