//go:build unix

package folder

import (
	"context"
	"path/filepath"

	"agent9/fsys"
	"agent9/providers/sandboxes"
	"agent9/providers/sandboxes/box"
)

var _ sandboxes.Rester = (*Sandbox)(nil)

// Rest shows a workspace that is a directory; see [sandboxes.Rester].
func (s *Sandbox) Rest(context.Context) (fsys.Node, func(), error) {
	s.mu.Lock()
	name := s.record.Workspace
	s.mu.Unlock()
	dir := filepath.Join(s.dir, workspaceDir)
	if name != "" {
		var err error
		if dir, err = s.store.workspace(name); err != nil {
			return nil, nil, err
		}
	}
	return box.Folder(dir)
}
