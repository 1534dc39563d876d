//go:build unix

package folder

import (
	"context"
	"os"
	"path/filepath"
	"syscall"

	"agent9/fsys"
)

// Owner is a user and a group, by number.
type Owner struct{ UID, GID int }

func (s *Store) owner(ctx context.Context, agent string) (*Owner, error) {
	if s.config.Owner == nil {
		return nil, nil
	}
	return s.config.Owner(ctx, agent)
}

// Mark gives what the daemon has for an agent the agent's group, for which it
// must have no permissions: it says whose it is, whatever becomes of it.
func Mark(path string, owner *Owner) error {
	if owner == nil {
		return nil
	}
	return fsys.Wrap(fsys.Internal, "the owner of a workspace", os.Lchown(path, -1, owner.GID))
}

// markAs marks path as other is.
func markAs(path, other string) error {
	info, err := os.Lstat(other)
	if err != nil || os.Geteuid() != 0 {
		return err
	}
	return os.Lchown(path, -1, int(info.Sys().(*syscall.Stat_t).Gid))
}

// Has reports whether there is anything of the group, also what is left over.
// If in doubt there is.
func (s *Store) Has(gid int) bool {
	for _, dir := range []string{s.sandboxes(), s.workspaces()} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return true
		}
		for _, e := range entries {
			info, err := os.Lstat(filepath.Join(dir, e.Name()))
			if err == nil && int(info.Sys().(*syscall.Stat_t).Gid) == gid {
				return true
			}
		}
	}
	return false
}
