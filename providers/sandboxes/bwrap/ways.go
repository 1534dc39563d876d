//go:build linux

package bwrap

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"agent9/fsys"
	"agent9/providers/sandboxes"
	"agent9/providers/sandboxes/bwrap/launch"
	"agent9/providers/sandboxes/folder"
)

// A way is how a sandbox is made of this machine's files.
type way struct {
	disk  string // see [sandboxes.Info]
	paths string
	root  bool // it takes rights of root
	// stage: what is inside is put on a stage (package launch) first.
	stage            bool
	readable, writes launch.How
}

// ways are tried in this order, and the first by which a sandbox can be made is
// the one. A workspace that is there already stays what it is.
var ways = []way{
	{disk: "image", paths: "none", root: true, stage: true, readable: launch.Readable, writes: launch.Writable},
	{disk: "walk", paths: "none", stage: true, readable: launch.Readable, writes: launch.Writable},
	{disk: "walk", paths: "provider", root: true, stage: true, readable: launch.Bound, writes: launch.Bound},
	{disk: "walk", paths: "provider"},
}

// file shows one file.
func (w way) file(path string) launch.Show {
	if w.readable == launch.Bound {
		return launch.Show{Path: path, How: launch.Bound}
	}
	return launch.Show{Path: filepath.Dir(path), File: filepath.Base(path), How: w.readable}
}

// A choice is the way that was chosen, and bubblewrap's version.
type choice struct {
	way
	version string
}

// choose finds the way, once; see [ways].
func (e *engine) choose(ctx context.Context) (*choice, error) {
	if err := e.choosing.Lock(ctx); err != nil {
		return nil, err
	}
	defer e.choosing.Unlock()
	if e.chosen != nil {
		return e.chosen, nil
	}
	path, err := exec.LookPath(e.program)
	if err != nil {
		return nil, noProgram
	}
	out, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return nil, fsys.Wrap(fsys.Unavailable, "bubblewrap", err)
	}
	for _, w := range ways {
		if w.root && !e.root || !w.root && e.root && !w.stage {
			continue
		}
		if err = e.try(ctx, w); err == nil {
			version := strings.TrimSpace(strings.TrimPrefix(string(out), "bubblewrap "))
			e.chosen = &choice{way: w, version: version}
			return e.chosen, nil
		}
		if ctx.Err() != nil {
			return nil, err
		}
	}
	return nil, err
}

var noProgram = fsys.E(fsys.Unavailable, "bubblewrap is not installed: install the package bubblewrap, or name the program")

// probeDisk is the limit of the sandboxes that are made to see whether they can
// be.
const probeDisk = 1 << 20

// try makes a sandbox that ends at once.
func (e *engine) try(ctx context.Context, w way) error {
	dir, err := e.scratch()
	if err != nil {
		return fsys.Wrap(fsys.Unavailable, "trying bubblewrap", err)
	}
	defer e.drop(dir)
	place := folder.Place{
		ID: filepath.Base(dir), Limits: sandboxes.Limits{Disk: probeDisk}, Owner: e.oldOwner(),
		Workspace: filepath.Join(dir, "workspace"), Skills: filepath.Join(dir, "skills"), Work: filepath.Join(dir, "work"),
	}
	for _, d := range []string{place.Skills, place.Work} {
		if err := os.Mkdir(d, 0o755); err != nil {
			return fsys.Wrap(fsys.Unavailable, "trying bubblewrap", err)
		}
	}
	if err := e.make(ctx, w, place); err != nil {
		return err
	}
	made, err := e.begin(ctx, w, place)
	if err != nil {
		return err
	}
	defer made.Close()
	cmd := made.Command() // its input is at the end, which ends the box
	var words strings.Builder
	cmd.Stderr = &words
	err = cmd.Start()
	if err == nil {
		made.Started()
		undo := context.AfterFunc(ctx, made.Kill)
		err = cmd.Wait()
		undo()
		made.Kill()
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		said := strings.Join(strings.Fields(words.String()), " ")
		if said == "" {
			said = err.Error()
		}
		return fsys.E(fsys.Unavailable, "bubblewrap cannot make a sandbox: "+said+advice())
	}
	return nil
}

// Make makes a workspace; see [folder.Engine].
func (e *engine) Make(ctx context.Context, place folder.Place) error {
	c, err := e.choose(ctx)
	if err != nil {
		return err
	}
	return e.make(ctx, c.way, place)
}

func (e *engine) make(ctx context.Context, w way, place folder.Place) error {
	if w.disk == "image" && place.Limits.Disk > 0 {
		return e.images.make(ctx, place)
	}
	return folder.Dir(place)
}

// show puts the workspace on the stage, and returns where it is there.
func (e *engine) show(ctx context.Context, w way, place folder.Place, stage *launch.Stage) (string, error) {
	info, err := os.Lstat(place.Workspace)
	if err != nil {
		return "", err
	}
	if info.IsDir() {
		return stage.Add(launch.Show{Path: place.Workspace, How: w.writes, Work: place.Work, Own: true}), nil
	}
	if w.disk != "image" {
		return "", fsys.E(fsys.Unavailable, "the workspace is a disk image that the daemon cannot mount: it needs root and loop devices")
	}
	if err := e.images.fit(ctx, place); err != nil {
		return "", err
	}
	goes := filepath.Dir(place.Workspace) == filepath.Dir(place.Work) // with the sandbox
	return stage.Add(launch.Show{Path: place.Workspace, How: launch.Image, Lost: goes}), nil
}
