//go:build unix

package box

import (
	"os"

	"agent9/fsys"
)

// Folder returns the files in dir, as a sandbox shows its own, where nothing
// leads out of dir, and what is called when done with them. Unsupported: dir is
// no directory.
func Folder(dir string) (root fsys.Node, done func(), err error) {
	if info, err := os.Lstat(dir); err == nil && !info.IsDir() {
		return nil, nil, fsys.E(fsys.Unsupported, "these files are not in a folder of this machine")
	}
	in, err := os.OpenRoot(dir)
	if err != nil {
		return nil, nil, failure(err)
	}
	d := &disk{rooted: in, turns: make(chan struct{}, atOnce)}
	return d.root(), d.close, nil
}
