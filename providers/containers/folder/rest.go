//go:build unix

package folder

import (
	"context"
	"path/filepath"

	"agent9/fsys"
	"agent9/providers/containers"
	"agent9/providers/containers/box"
)

var _ containers.Rester = (*Sandbox)(nil)

// Rest shows a workspace that is a directory; see [containers.Rester].
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
