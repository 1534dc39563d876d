//go:build (linux && !386 && !arm && !mips && !mipsle) || darwin || freebsd

package fuse

import (
	gofuse "github.com/hanwen/go-fuse/v2/fuse"

	"agent9/fsys"
)

// maxIdle is about how many names of files that nobody has open are kept. By
// itself the kernel forgets one only when it is short of memory.
const maxIdle = 4096

// Init comes before every other call.
func (t *tree) Init(s *gofuse.Server) { t.server = s }

// trim has the kernel forget the names that were looked up longest ago. It is
// not for the goroutine of a request: the kernel locks a directory while it
// looks up a name there.
func (t *tree) trim() {
	for _, p := range t.inodes.idle() {
		if t.ctx.Err() != nil {
			return
		}
		t.server.EntryNotify(p.dir, p.name)
	}
}

// full reports that it is time to trim, once for as many new names as trim
// takes away.
func (t *inodes) full() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.byID) <= maxIdle || t.lastID < t.trimAt {
		return false
	}
	t.trimAt = t.lastID + maxIdle/2
	return true
}

// idle returns where the older files are that nobody has open. Directories stay:
// one may be where a shell is.
func (t *inodes) idle() (idle []place) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for at, in := range t.at {
		if in.opens == 0 && in.kind != fsys.Directory && in.id+maxIdle/2 < t.lastID {
			idle = append(idle, at)
		}
	}
	return idle
}
