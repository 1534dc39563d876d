//go:build linux

package cgroup

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// A Group is a set of processes with all their descendants.
type Group struct {
	tree *Tree
	name string
}

func (g *Group) dirs() []string {
	dirs := g.tree.all()
	for i, d := range dirs {
		dirs[i] = filepath.Join(d, g.name)
	}
	return dirs
}

// Procs returns the files to which a process writes 0 to join the group.
func (g *Group) Procs() []string {
	files := g.dirs()
	for i, d := range files {
		files[i] = filepath.Join(d, "cgroup.procs")
	}
	return files
}

// file returns the path of a file of a controller: name1 with version 1, name2
// with version 2; empty if there is no such controller.
func (g *Group) file(controller, name1, name2 string) string {
	switch {
	case g.tree.v1[controller] != "" && name1 != "":
		return filepath.Join(g.tree.v1[controller], g.name, name1)
	case g.tree.have[controller] && name2 != "":
		return filepath.Join(g.tree.v2, g.name, name2)
	}
	return ""
}

// period is how often the share of the processors is dealt out, in
// microseconds.
const period = 100_000

func (g *Group) limit(l Limits) error {
	quota := strconv.FormatInt(max(l.CPUs*period/1000, 1000), 10)
	for _, set := range []struct {
		limit       int64
		file, value string
		may         bool // be missing: not every kernel counts swap
	}{
		{l.PIDs, g.file("pids", "pids.max", "pids.max"), strconv.FormatInt(l.PIDs, 10), false},
		{l.CPUs, g.file("cpu", "cpu.cfs_period_us", ""), strconv.Itoa(period), false},
		{l.CPUs, g.file("cpu", "cpu.cfs_quota_us", ""), quota, false},
		{l.CPUs, g.file("cpu", "", "cpu.max"), quota + " " + strconv.Itoa(period), false},
		{l.Memory, g.file("memory", "memory.limit_in_bytes", "memory.max"), strconv.FormatInt(l.Memory, 10), false},
		{l.Memory, g.file("memory", "memory.memsw.limit_in_bytes", ""), strconv.FormatInt(l.Memory, 10), true},
		{l.Memory, g.file("memory", "", "memory.swap.max"), "0", true},
	} {
		if set.limit == 0 || set.file == "" {
			continue
		}
		err := write(set.file, set.value)
		if set.may && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.EOPNOTSUPP)) {
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Usage is what the group has used so far; zero if it does not exist.
func (g *Group) Usage() Usage {
	var u Usage
	if f := g.file("cpuacct", "cpuacct.usage", ""); f != "" {
		u.CPU = time.Duration(number(words(f), ""))
	} else if g.tree.v2 != "" {
		u.CPU = time.Duration(number(words(filepath.Join(g.tree.v2, g.name, "cpu.stat")), "usage_usec")) * time.Microsecond
	}
	if f := g.file("memory", "memory.max_usage_in_bytes", "memory.peak"); f != "" {
		u.Memory = number(words(f), "")
	}
	if f := g.file("memory", "memory.oom_control", "memory.events"); f != "" {
		u.OOMKills = number(words(f), "oom_kill")
	}
	return u
}

// number returns what follows key in a file of keys and values, or the first
// word if key is empty.
func number(words []string, key string) int64 {
	for i, w := range words {
		if key != "" {
			if w != key || i+1 == len(words) {
				continue
			}
			w = words[i+1]
		}
		n, _ := strconv.ParseInt(w, 10, 64)
		return n
	}
	return 0
}

// Kill ends every process of the group and returns when none is left.
func (g *Group) Kill() {
	if f := g.file("pids", "pids.max", "pids.max"); f != "" {
		write(f, "0") // nothing is born faster than it is killed
	}
	for _, procs := range g.Procs() {
		for kill(words(procs)) {
		}
	}
}

// patience is how long a process that was killed may take to end. The kernel
// may keep it longer only while a disk does not answer.
const patience = 5 * time.Second

// kill kills the processes with these numbers and waits for their end. It
// reports whether there may be more.
func kill(pids []string) bool {
	var killed []int
	for _, s := range pids {
		pid, err := strconv.Atoi(s)
		if err != nil || pid <= 0 {
			continue // 0: it is not in this pid namespace
		}
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue
		}
		defer unix.Close(fd)
		if unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) == nil {
			killed = append(killed, fd)
		}
	}
	for _, fd := range killed {
		if !Exited(fd) {
			return false
		}
	}
	return len(killed) > 0
}

// Exited waits, not forever, until the process of a pidfd has ended.
func Exited(pidfd int) bool {
	wait := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
	for end := time.Now().Add(patience); ; {
		left := time.Until(end)
		if left <= 0 {
			return false
		}
		n, err := unix.Poll(wait, int(left.Milliseconds())+1)
		if n > 0 {
			return true
		}
		if err != nil && err != unix.EINTR {
			return false
		}
	}
}

// Remove removes the group, which must be empty, and with version 1 also the
// one above it when that was the last in it. What cannot be removed is left to
// Sweep.
func (g *Group) Remove() {
	for _, dir := range g.dirs() {
		os.Remove(dir)
		if above := filepath.Dir(dir); above != g.tree.v2 {
			os.Remove(above)
		}
	}
}
