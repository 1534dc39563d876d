//go:build unix

package box

import (
	"context"
	"errors"
	"math"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"agent9/providers/sandboxes/deep"
)

// unseen is the size of what cannot be seen.
const unseen = math.MaxInt64

// A tally adds up what files have of the disk, each once.
type tally struct {
	dev  uint64
	seen map[id]bool // those that can be met again
	size int64
}

func (t *tally) add(st *unix.Stat_t) {
	if st.Mode&unix.S_IFMT != unix.S_IFDIR && st.Nlink != 1 {
		at := id{uint64(st.Dev), uint64(st.Ino)}
		if t.seen[at] {
			return
		}
		t.seen[at] = true
	}
	t.size += int64(st.Blocks) * 512
}

// measure is how many bytes the directory dir has of its disk, with the files
// that are in no directory any more, and that a process holds. Programs know dir
// as inside. It is unseen if that cannot be told for a while: a process that
// begins or ends hides for a moment what it has.
func measure(ctx context.Context, dir, inside string, processes func() []int) int64 {
	for pause := 20 * time.Millisecond; ; pause *= 3 {
		size, err := measured(ctx, dir, inside, processes)
		if err == nil {
			return size
		}
		if pause > longestHidden {
			return unseen
		}
		again := time.NewTimer(pause)
		select {
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
			return unseen
		}
	}
}

// longestHidden bounds the pauses between two looks.
const longestHidden = 200 * time.Millisecond

var errUnseen = errors.New("something cannot be seen")

func measured(ctx context.Context, dir, inside string, processes func() []int) (int64, error) {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return 0, err
	}
	t := &tally{dev: uint64(st.Dev), seen: map[id]bool{}}
	t.add(&st)
	err := deep.Walk(dir, func(e deep.Entry) error {
		if uint64(e.Stat.Dev) == t.dev {
			t.add(&e.Stat)
		}
		return ctx.Err()
	}, func(e deep.Entry, err error) error {
		var st unix.Stat_t
		if unix.Fstatat(e.Dir, e.Name, &st, unix.AT_SYMLINK_NOFOLLOW) == syscall.ENOENT {
			return nil
		}
		return errUnseen
	})
	if err == nil {
		err = t.held(inside, processes())
	}
	return t.size, err
}
