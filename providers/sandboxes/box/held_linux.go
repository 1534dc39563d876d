package box

import (
	"bufio"
	"bytes"
	"errors"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// own is what this process holds of files in the file system of dir that are in
// no directory any more.
func own(dir string) int64 {
	var st unix.Stat_t
	if unix.Stat(dir, &st) != nil {
		return unseen
	}
	t := &tally{dev: uint64(st.Dev), seen: map[id]bool{}}
	t.open("/proc/self")
	return t.size
}

// held adds the files that are in no directory any more, and that processes
// hold.
func (t *tally) held(inside string, processes []int) error {
	for _, pid := range processes {
		proc := "/proc/" + strconv.Itoa(pid)
		err := t.open(proc)
		if err == nil {
			err = t.mapped(proc, inside)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ESRCH) {
			return err
		}
	}
	return nil
}

// open adds what a process has open, or runs. Files that are under way from one
// process to another are nobody's, and cannot be seen.
func (t *tally) open(proc string) error {
	dir, err := os.Open(proc + "/fd")
	if err != nil {
		return err
	}
	defer dir.Close()
	fds, err := dir.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, at := range append(fds, "../exe") {
		path := proc + "/fd/" + at
		var st unix.Stat_t
		if unix.Stat(path, &st) != nil {
			continue // closed meanwhile
		}
		switch {
		case st.Mode&unix.S_IFMT == unix.S_IFSOCK:
			info, _ := os.ReadFile(proc + "/fdinfo/" + at)
			_, n, ok := bytes.Cut(info, []byte("scm_fds:"))
			if n, _, _ = bytes.Cut(n, []byte("\n")); ok && string(bytes.TrimSpace(n)) != "0" {
				return errUnseen
			}
		case st.Nlink == 0 && st.Mode&unix.S_IFMT == unix.S_IFREG && t.ours(path, &st):
			t.add(&st)
		}
	}
	return nil
}

// ours reports whether a file is in the workspace's file system. From outside,
// that has another number than for the programs inside, who have it by an
// overlay.
func (t *tally) ours(path string, st *unix.Stat_t) bool {
	var on unix.Statfs_t
	return st.Dev == t.dev || unix.Statfs(path, &on) == nil && on.Type == unix.OVERLAYFS_SUPER_MAGIC
}

// mapped finds files of the workspace that a process has in its memory only:
// how large they are cannot be seen.
func (t *tally) mapped(proc, inside string) error {
	maps, err := os.Open(proc + "/maps")
	if err != nil {
		return err
	}
	defer maps.Close()
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		if !strings.HasSuffix(lines.Text(), " (deleted)") {
			continue
		}
		f := strings.Fields(lines.Text())
		if len(f) < 6 || !strings.HasPrefix(f[5], inside+"/") {
			continue
		}
		ino, err := strconv.ParseUint(f[4], 10, 64)
		if err != nil || !t.met(ino) {
			return errUnseen
		}
	}
	return nil
}

func (t *tally) met(ino uint64) bool {
	for at := range t.seen {
		if at.ino == ino {
			return true
		}
	}
	return false
}

// descendants are a process and all those that it has begun, or adopted, from so
// many generations below it on; but not this process, below another.
func descendants(root, from int) []int {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	children := map[int][]int{}
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue
		}
		rest := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if len(rest) < 2 || rest[0] == "Z" {
			continue // it has nothing
		}
		parent, _ := strconv.Atoi(rest[1])
		children[parent] = append(children[parent], pid)
	}
	all, generation := []int(nil), []int{root}
	for n := 0; len(generation) > 0; n++ {
		if n >= from {
			all = append(all, generation...)
		}
		var next []int
		for _, pid := range generation {
			for _, c := range children[pid] {
				if c != os.Getpid() {
					next = append(next, c)
				}
			}
		}
		generation = next
	}
	return all
}
