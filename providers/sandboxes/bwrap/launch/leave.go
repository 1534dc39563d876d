//go:build linux

package launch

import (
	"bufio"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// leave takes the mounts of which a program is the server, and that nothing in
// paths needs, out of this mount namespace: it lives as long as the sandbox, and
// a server ends only when its mount is in no namespace. No such server is asked
// anything. As root of a user namespace only, the kernel lets none go, and they
// stay.
func leave(paths []string) error {
	mounts, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	defer mounts.Close()
	var left []string
	for lines := bufio.NewScanner(mounts); lines.Scan(); {
		dir, kind := mount(lines.Text())
		if !served(kind) || below(paths, dir) || len(left) > 0 && within(dir, left) {
			continue
		}
		if unix.Unmount(dir, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW) == nil {
			left = append(left, dir)
		}
	}
	return nil
}

// mount returns where a line of mountinfo has something, and the kind of its
// file system.
func mount(line string) (dir, kind string) {
	before, after, _ := strings.Cut(line, " - ")
	words := strings.Fields(before)
	if len(words) < 5 {
		return "", ""
	}
	kind, _, _ = strings.Cut(after, " ")
	return octal.ReplaceAllStringFunc(words[4], func(s string) string {
		c, _ := strconv.ParseUint(s[1:], 8, 8)
		return string([]byte{byte(c)})
	}), kind
}

var octal = regexp.MustCompile(`\\[0-3][0-7]{2}`)

// served reports whether a program serves file systems of the kind.
func served(kind string) bool {
	return kind == "9p" || kind == "fuse" || strings.HasPrefix(kind, "fuse.")
}

// below reports whether one of paths is dir or below it.
func below(paths []string, dir string) bool {
	for _, p := range paths {
		if within(p, []string{dir}) {
			return true
		}
	}
	return false
}

// within reports whether path is one of dirs or below one.
func within(path string, dirs []string) bool {
	for _, dir := range dirs {
		if path == dir || dir == "/" || strings.HasPrefix(path, dir+"/") {
			return true
		}
	}
	return false
}

// needs are the files of which the sandbox is made, and their real names.
func (p Plan) needs() []string {
	list := []string{"/"}
	add := func(path string) {
		if filepath.IsAbs(path) && !within(path, []string{p.Stage.Dir}) {
			list = append(list, path)
			if to, err := filepath.EvalSymlinks(path); err == nil {
				list = append(list, to)
			}
		}
	}
	for _, arg := range p.Argv {
		add(arg)
	}
	for _, show := range p.Stage.Shows {
		list = append(list, show.Path)
		if to, err := filepath.EvalSymlinks(show.Path); err == nil {
			list = append(list, to)
		}
	}
	return list
}
