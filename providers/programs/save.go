package programs

import (
	"context"
	"path"

	"agent9/fsys"
)

// Save makes p the content of the file at name, such as "state/notes", which
// is created if need be.
func Save(ctx context.Context, ns fsys.Node, name string, p []byte) error {
	dir, err := fsys.WalkPath(ctx, ns, path.Dir(name))
	if err != nil {
		return err
	}
	_, h, err := fsys.OpenCreate(ctx, dir, path.Base(name), 0o644, fsys.Write|fsys.Trunc)
	if err != nil {
		return err
	}
	if _, err := fsys.WriteAt(ctx, h, p, 0); err != nil {
		h.Close()
		return err
	}
	return fsys.Finish(ctx, h)
}
