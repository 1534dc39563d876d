//go:build unix

package box

import (
	"context"
	"io/fs"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"agent9/fsys"
)

// A quota measures what the workspace has on its disk, again and again, for
// drivers whose disk does not bound it. So it may have more for a moment.
type quota struct {
	dir   string
	limit int64
	// exceeded is called when there is more than the limit, and more than the
	// last time: what removes files is not disturbed.
	exceeded func()

	full atomic.Bool
}

// A measurement is made once in period at most, and takes one part in share of
// the time at most.
const (
	period = time.Second
	share  = 20
)

// watch measures until ctx ends.
func (q *quota) watch(ctx context.Context) {
	var last int64
	for {
		begun := time.Now()
		size := diskUsage(ctx, q.dir)
		if ctx.Err() != nil {
			return
		}
		q.full.Store(size > q.limit)
		if size > q.limit && size > last {
			q.exceeded()
			size = diskUsage(ctx, q.dir) // with what was written until then
		}
		last = size
		q.full.Store(size > q.limit)
		timer := time.NewTimer(max(period, share*time.Since(begun)))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// room reports whether something may be written; q may be nil.
func (q *quota) room() error {
	if q != nil && q.full.Load() {
		return fsys.E(fsys.NoSpace, "the workspace has more than it may: remove something")
	}
	return nil
}

// diskUsage is what the files below dir, on the same disk, have of it.
func diskUsage(ctx context.Context, dir string) int64 {
	var size int64
	var disk uint64
	seen := map[uint64]bool{} // files with several names
	filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return nil // it went meanwhile, or is nobody's business
		}
		info, err := d.Info()
		if err != nil {
			return nil
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		switch {
		case !ok:
			return nil
		case path == dir:
			disk = uint64(st.Dev)
		case uint64(st.Dev) != disk && d.IsDir():
			return fs.SkipDir
		case !d.IsDir() && st.Nlink > 1:
			if seen[st.Ino] {
				return nil
			}
			seen[st.Ino] = true
		}
		size += int64(st.Blocks) * 512
		return nil
	})
	return size
}
