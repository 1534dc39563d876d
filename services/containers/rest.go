package containers

import (
	"context"
	"errors"
	"strings"

	"agent9/fsys"
)

// workDir is what files/ lists of a sandbox: all that is not the image's.
// rootDir is where the rest is listed.
const (
	workDir = "workspace"
	rootDir = "root"
)

// rest returns what f is without a run of the sandbox, if it is in the
// workspace of a session that has ended and the provider can tell; else nil.
func (f *file) rest(ctx context.Context) (fsys.Node, func(), error) {
	r := f.w.Record()
	below, in := strings.CutPrefix(f.path, workDir)
	if r.Bare {
		below, in = "/"+f.path, true
	}
	if !in || below != "" && below[0] != '/' || !r.State.ended() || r.Sandbox == "" {
		return nil, nil, nil
	}
	runner := f.w.s.config.Providers.Get(r.Provider)
	if runner == nil {
		return nil, nil, nil
	}
	if err := f.w.s.workspaceFree(ctx, r); err != nil {
		return nil, nil, err
	}
	box, err := runner.Open(ctx, r.Sandbox, f.w.s.owns)
	if err != nil {
		return nil, nil, nil // a run will say why not
	}
	root, done, err := box.Rest(ctx)
	if errors.Is(err, fsys.Unsupported) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	n, err := fsys.WalkPath(ctx, root, below)
	if err != nil {
		done()
		return nil, nil, err
	}
	return n, done, nil
}

// starts reports whether the sandbox must be made to run to say what f is.
func (f *file) starts(ctx context.Context) bool {
	if !f.w.Record().State.ended() || f.w.shown(ctx) {
		return false
	}
	n, done, err := f.rest(ctx)
	if n != nil {
		done()
	}
	return n == nil && err == nil
}

// top lists what files/ shows: the workspace, which is all of it where the
// sandbox has nothing else. What is not listed is walked to.
func (f *file) top(ctx context.Context) ([]fsys.Entry, error) {
	if f.w.Record().Bare {
		return f.all(ctx)
	}
	c := f.child(workDir)
	switch _, err := c.Stat(fsys.WithoutStart(ctx)); {
	case errors.Is(err, fsys.NotExist), errors.Is(err, fsys.Busy): // or not yet, or another session's
		return nil, f.w.Present()
	case err != nil:
		return nil, err
	}
	return []fsys.Entry{{Name: workDir, Node: c}}, nil
}

// everything is the directory of all that a sandbox has, from its root on.
type everything struct{ *file }

// Stat says that a look at it leads to what makes the sandbox run, and to all
// of its image.
func (e everything) Stat(ctx context.Context) (fsys.Info, error) {
	info, err := e.file.Stat(ctx)
	info.Acts = true
	return info, err
}

func (e everything) List(ctx context.Context) ([]fsys.Entry, error) { return e.file.all(ctx) }

// Remove hides the name.
func (e everything) Remove(ctx context.Context) error {
	if !e.empty() {
		return fsys.NotEmpty
	}
	return e.w.Hide(ctx, rootDir)
}
