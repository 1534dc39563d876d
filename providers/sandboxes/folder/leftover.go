//go:build unix

package folder

import (
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"agent9/providers/sandboxes/deep"
)

// again is how long what could not be removed is left alone.
const again = time.Minute

// remove removes a path that nothing needs, or has it left over.
func (s *Store) remove(path string) {
	if err := deep.RemoveAll(path); err != nil {
		s.leave(path, err)
		return
	}
	s.mu.Lock()
	delete(s.left, path)
	s.mu.Unlock()
}

// leave notes what cannot be removed, or used.
func (s *Store) leave(path string, err error) {
	s.mu.Lock()
	known := s.left[path]
	s.left[path] = true
	if !known {
		s.tried = time.Now()
	}
	s.mu.Unlock()
	if !known {
		slog.Warn("cannot remove the remains of a sandbox, will retry; find out what uses them", "path", path, "err", err)
	}
}

// retry tries again to remove what is left over, once in a while.
func (s *Store) retry() {
	s.mu.Lock()
	late := time.Since(s.tried) >= again
	if late {
		s.tried = time.Now()
	}
	left := slices.Collect(maps.Keys(s.left))
	s.mu.Unlock()
	if !late {
		return
	}
	for _, path := range left {
		if strings.HasPrefix(filepath.Base(path), ".") {
			s.remove(path)
		}
	}
}

// Left lists what is left over of sandboxes, below the folder.
func (s *Store) Left() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []string
	for path := range s.left {
		if _, err := os.Lstat(path); err != nil {
			delete(s.left, path) // somebody did
			continue
		}
		if short, err := filepath.Rel(s.config.Dir, path); err == nil {
			list = append(list, short)
		}
	}
	slices.Sort(list)
	return list
}

// names are those in a directory; none if it cannot be read.
func names(dir string) []string {
	f, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer f.Close()
	list, _ := f.Readdirnames(-1)
	return list
}
