//go:build linux

// Package cgroup bounds and counts what groups of processes use, with the
// control groups of Linux, version 1 or 2 or both, as they are mounted
// (cgroups(7)).
//
// Groups are made below the group of this process, in one that bears the name
// of their owner. With version 1 that needs the right to write there, which
// root has. With version 2 the group of this process must be its own besides
// (in systemd, Delegate=yes): it has the processes or the groups below it that
// are limited, not both, so that this process moves to a group "daemon" below
// its own first.
package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"agent9/fsys"
)

// Limits of a group. Zero is none.
type Limits struct {
	Memory int64 // bytes
	CPUs   int64 // thousandths of one
	PIDs   int64
}

// Usage of a group and of what was in it.
type Usage struct {
	CPU      time.Duration
	Memory   int64 // the most at any time, in bytes; 0 if the kernel does not say
	OOMKills int64
}

// A Tree is where groups are made: for each controller that can be used, a
// directory. With version 2 it is the same one for all.
type Tree struct {
	v1 map[string]string
	v2 string
	// have are the controllers of v2.
	have map[string]bool
}

// controllers are what limits and usage need.
var controllers = []string{"memory", "pids", "cpu", "cpuacct"}

// Find returns the place for the groups of owner, as far as there is one.
func Find(owner string) *Tree {
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	groups, _ := os.ReadFile("/proc/self/cgroup")
	return find(string(mounts), string(groups), owner)
}

func find(mounts, groups, owner string) *Tree {
	t := &Tree{v1: map[string]string{}, have: map[string]bool{}}
	own := directories(mounts, groups)
	for _, c := range controllers {
		if dir := own[c]; dir != "" && unix.Access(dir, unix.W_OK) == nil {
			t.v1[c] = filepath.Join(dir, owner)
		}
	}
	if own[""] != "" {
		t.delegate(own[""], owner)
	}
	return t
}

// usable makes dir and reports whether groups can be made in it.
func usable(dir string) bool {
	err := os.Mkdir(dir, 0o755)
	return (err == nil || errors.Is(err, os.ErrExist)) && unix.Access(dir, unix.W_OK) == nil
}

// directories returns the directory of this process's group for each
// controller of version 1, and for version 2 under "".
func directories(mounts, groups string) map[string]string {
	paths := map[string]string{}
	for line := range strings.Lines(groups) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(f) != 3 {
			continue
		}
		for _, c := range strings.Split(f[1], ",") {
			paths[c] = f[2]
		}
	}
	dirs := map[string]string{}
	for line := range strings.Lines(mounts) {
		before, after, _ := strings.Cut(line, " - ")
		f, g := strings.Fields(before), strings.Fields(after)
		if len(f) < 5 || len(g) < 3 {
			continue
		}
		names := []string{""}
		switch g[0] {
		case "cgroup":
			names = strings.Split(g[2], ",")
		case "cgroup2":
		default:
			continue
		}
		for _, c := range names {
			path, ok := paths[c]
			if !ok || dirs[c] != "" {
				continue
			}
			if below, ok := within(path, unescape(f[3])); ok {
				dirs[c] = filepath.Join(unescape(f[4]), below)
			}
		}
	}
	return dirs
}

// within returns path as seen from root, which is what of the hierarchy is
// mounted.
func within(path, root string) (string, bool) {
	if root == "/" {
		return path, true
	}
	below, ok := strings.CutPrefix(path, root)
	return below, ok && (below == "" || below[0] == '/')
}

// unescape undoes what mountinfo does to blanks.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// delegate makes the directory for version 2 in own, if own has controllers
// that version 1 has not, and they can be given to groups below.
func (t *Tree) delegate(own, owner string) {
	var want []string
	for _, c := range words(filepath.Join(own, "cgroup.controllers")) {
		if c == "memory" || c == "pids" || c == "cpu" {
			want = append(want, c)
		}
	}
	dir := filepath.Join(own, owner)
	if len(want) == 0 || !usable(dir) {
		return
	}
	if !enable(own, want) && (!moveAside(own) || !enable(own, want)) {
		os.Remove(dir)
		return
	}
	enable(dir, want)
	for _, c := range words(filepath.Join(dir, "cgroup.subtree_control")) {
		t.v2, t.have[c] = dir, true
	}
}

// enable gives controllers to the groups below dir, and reports whether they
// all are.
func enable(dir string, names []string) bool {
	file := filepath.Join(dir, "cgroup.subtree_control")
	for _, c := range names {
		if write(file, "+"+c) != nil {
			return false
		}
	}
	return true
}

// moveAside moves this process to a group of its own below dir, if it is the
// only one in dir.
func moveAside(dir string) bool {
	self := strconv.Itoa(os.Getpid())
	in := words(filepath.Join(dir, "cgroup.procs"))
	if len(in) != 1 || in[0] != self {
		return false
	}
	daemon := filepath.Join(dir, "daemon")
	return usable(daemon) && write(filepath.Join(daemon, "cgroup.procs"), self) == nil
}

// Enforces lists the limits that groups of this tree have: memory, cpus, pids.
func (t *Tree) Enforces() []string {
	var list []string
	for _, l := range []struct{ controller, limit string }{{"memory", "memory"}, {"cpu", "cpus"}, {"pids", "pids"}} {
		if t.v1[l.controller] != "" || t.have[l.controller] {
			list = append(list, l.limit)
		}
	}
	return list
}

// Make makes the group name with limits; those that the tree does not enforce
// are not set.
func (t *Tree) Make(name string, limits Limits) (*Group, error) {
	g := t.Group(name)
	for _, dir := range g.dirs() {
		if err := makeAll(dir); err != nil {
			g.Remove()
			return nil, fsys.Wrap(fsys.Unavailable, "the control group of the sandbox", err)
		}
	}
	if err := g.limit(limits); err != nil {
		g.Remove()
		return nil, fsys.Wrap(fsys.Invalid, "a limit of the sandbox", err)
	}
	return g, nil
}

// makeAll makes dir, and what is above it, which may be removed meanwhile: that
// happens when the last of other groups goes.
func makeAll(dir string) error {
	for {
		err := os.MkdirAll(dir, 0o755)
		if !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if _, err := os.Stat(filepath.Dir(filepath.Dir(dir))); err != nil {
			return err
		}
	}
}

// Group returns the group name, which may not exist.
func (t *Tree) Group(name string) *Group { return &Group{tree: t, name: name} }

// Sweep kills what is in any group of the tree, and removes it.
func (t *Tree) Sweep() {
	for _, parent := range t.all() {
		entries, _ := os.ReadDir(parent)
		for _, e := range entries {
			if e.IsDir() {
				g := t.Group(e.Name())
				g.Kill()
				g.Remove()
			}
		}
	}
}

// all returns every directory in which groups are made.
func (t *Tree) all() []string {
	var dirs []string
	for _, c := range controllers {
		if d := t.v1[c]; d != "" {
			dirs = append(dirs, d)
		}
	}
	if t.v2 != "" {
		dirs = append(dirs, t.v2)
	}
	return dirs
}

func words(file string) []string {
	p, _ := os.ReadFile(file)
	return strings.Fields(string(p))
}

func write(file, value string) error {
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(value)
	return err
}
