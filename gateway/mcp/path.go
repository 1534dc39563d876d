package mcp

import (
	"context"
	"fmt"
	"path"

	"agent9/fsys"
)

// at is the path of every tool.
type at struct {
	Path string `json:"path" jsonschema:"path of the file, such as /inbox/new; / is the top"`
}

// clean returns p as a path below the root.
func clean(p string) string { return path.Clean("/" + p) }

// walk finds the file at p.
func (t *tree) walk(ctx context.Context, p string) (fsys.Node, error) {
	root, err := t.root(ctx)
	if err != nil {
		return nil, err
	}
	return fsys.WalkPath(ctx, root, clean(p)[1:])
}

// look finds the file at p, and what it is.
func (t *tree) look(ctx context.Context, p string) (fsys.Node, fsys.Info, error) {
	node, err := t.walk(ctx, p)
	if err != nil {
		return nil, fsys.Info{}, err
	}
	info, err := node.Stat(ctx)
	return node, info, err
}

// parent finds the directory that p is in.
func (t *tree) parent(ctx context.Context, p string) (dir fsys.Node, name string, err error) {
	up, name := path.Split(clean(p))
	if name == "" {
		return nil, "", fsys.E(fsys.Permission, "the root cannot be created, written, renamed or removed")
	}
	dir, err = t.walk(ctx, up)
	return dir, name, err
}

// told is err as a client is told it: the code, the path and the reason.
func told(ctx context.Context, p string, err error) error {
	if cause := context.Cause(ctx); cause != nil && fsys.CodeOf(err) == fsys.Canceled {
		err = cause
	}
	code, reason := fsys.CodeOf(err), fsys.ReasonOf(err)
	if reason == "" {
		reason = code.Text()
	}
	return fmt.Errorf("%s: %s: %s", code.String(), clean(p), reason)
}
