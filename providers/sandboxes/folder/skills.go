//go:build unix

package folder

import (
	"context"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"agent9/fsys"
	"agent9/providers/sandboxes"
	"agent9/providers/sandboxes/deep"
)

// writeSkills writes files below dir, for everybody to read.
func writeSkills(ctx context.Context, dir string, files []sandboxes.File) error {
	if err := os.Chmod(dir, 0o755); err != nil {
		return fsys.Wrap(fsys.Internal, "the folder of skills", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fsys.Wrap(fsys.Internal, "the folder of skills", err)
	}
	defer root.Close()
	for _, f := range files {
		if err := ctx.Err(); err != nil {
			return err
		}
		if !filepath.IsLocal(f.Name) || path.Clean(f.Name) != f.Name || f.Name == "." {
			return fsys.E(fsys.Invalid, "a skill cannot be called "+f.Name)
		}
		if err := root.MkdirAll(path.Dir(f.Name), 0o755); err != nil {
			return fsys.Wrap(fsys.Internal, "the skill "+f.Name, err)
		}
		if err := root.WriteFile(f.Name, f.Data, 0o644); err != nil {
			return fsys.Wrap(fsys.Internal, "the skill "+f.Name, err)
		}
	}
	return nil
}

// CopySkills copies the skills to the directory skills of the workspace, in the
// place of what is there, for sandboxes that cannot show them there. It returns
// that directory, or nothing if there are no skills.
func (p Place) CopySkills() (string, error) {
	names, err := os.ReadDir(p.Skills)
	if err != nil || len(names) == 0 {
		return "", err
	}
	to := filepath.Join(p.Workspace, skillsDir)
	if err := deep.RemoveAll(to); err != nil {
		return "", err
	}
	if err := os.CopyFS(to, os.DirFS(p.Skills)); err != nil {
		return "", err
	}
	return to, filepath.WalkDir(to, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		return os.Chmod(path, 0o444)
	})
}
