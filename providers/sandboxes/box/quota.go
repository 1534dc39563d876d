//go:build unix

package box

import (
	"bufio"
	"context"
	"io"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"agent9/fsys"
	"agent9/providers/sandboxes"
)

// A quota knows what the workspace has on its disk, as of a while ago, for
// drivers whose disk does not bound it. So it may have more for a moment.
type quota struct {
	limit int64
	// exceeded is called when there is more than the limit, and more than the
	// last time: what removes files is not disturbed.
	exceeded func()

	full atomic.Bool
	last int64
}

// A measurement is made once in period at most, and takes one part in share of
// the time at most.
const (
	period = time.Second
	share  = 20
)

// watch measures until ctx ends, or takes the measurements of others.
func (q *quota) watch(ctx context.Context, setup sandboxes.Setup) {
	if setup.Measured == 0 {
		repeat(ctx, func() error {
			all := func() []int { return descendants(os.Getpid(), 0) }
			q.know(measure(ctx, setup.Where.Workspace, setup.Where.Workspace, all))
			return nil
		})
		return
	}
	from := os.NewFile(uintptr(setup.Measured), "measured")
	stop := context.AfterFunc(ctx, func() { from.Close() })
	defer stop()
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		size, err := strconv.ParseInt(lines.Text(), 10, 64)
		if err == nil && size < unseen {
			size += own(setup.Where.Workspace)
		}
		if err == nil {
			q.know(size)
		}
	}
	if ctx.Err() == nil { // nobody knows any more
		q.know(unseen)
	}
}

// know takes note of what there is.
func (q *quota) know(size int64) {
	full := size > q.limit
	q.full.Store(full)
	if full && (size > q.last || size == unseen) {
		q.exceeded()
	}
	q.last = size
}

// repeat calls f again and again until it fails, or ctx ends.
func repeat(ctx context.Context, f func() error) error {
	for {
		begun := time.Now()
		if err := f(); err != nil {
			return err
		}
		timer := time.NewTimer(max(period, share*time.Since(begun)))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
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

// Measure is the subcommand of cmd/a9 that measures from outside of a sandbox:
// the directory that is its file 3, and what the processes of the sandbox but
// the box hold open that is in no directory any more. Inside, the directory is at the path
// that is its argument. It writes the numbers to its standard output, a line
// each, until nobody reads them.
const Measure = "measure"

// Measuring performs the subcommand Measure.
func Measuring(args []string) int {
	if len(args) != 1 {
		return 2
	}
	ctx := context.Background()
	repeat(ctx, func() error {
		// The parent is bubblewrap, and its child the box, which hides itself.
		others := func() []int { return descendants(os.Getppid(), 2) }
		size := measure(ctx, "/proc/self/fd/3", args[0], others)
		_, err := io.WriteString(os.Stdout, strconv.FormatInt(size, 10)+"\n")
		return err
	})
	return 1
}
