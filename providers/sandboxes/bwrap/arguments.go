//go:build linux

package bwrap

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"agent9/fsys"
	"agent9/providers/sandboxes"
	"agent9/providers/sandboxes/folder"
)

// etcHost is what a sandbox of this machine's programs has of /etc: how they
// are found and linked, certificates, and nothing that is anybody's.
var etcHost = []string{
	"alternatives", "ca-certificates", "ca-certificates.conf", "crypto-policies", "debian_version",
	"fonts", "java-*-openjdk", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "magic",
	"mime.types", "os-release", "perl", "pki", "protocols", "python3*", "services", "ssl/certs",
	"ssl/openssl.cnf", "terminfo",
}

// provided are the names at the top of an image whose place is taken by what
// every sandbox has.
var provided = []string{"agent9", "dev", "etc", "proc", "run", "sys", "tmp", "workspace"}

// A system is what is read-only in a sandbox.
type system struct {
	dir   string            // of this machine
	names []string          // what of dir is shown
	etc   []string          // what of dir/etc is shown, as patterns
	made  map[string]string // files of /etc that are made instead
}

// system returns this machine's, or an image's.
func (e *engine) system(place folder.Place) (system, error) {
	s := system{dir: "/", names: []string{"usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"}, etc: etcHost}
	s.made = map[string]string{
		"hosts":    "127.0.0.1 localhost sandbox\n::1 localhost\n",
		"hostname": "sandbox\n",
	}
	if p, err := os.ReadFile("/etc/resolv.conf"); place.Limits.Network && err == nil {
		s.made["resolv.conf"] = string(p)
	}
	if place.Image == "" || place.Image == thisMachine {
		s.made["passwd"] = fmt.Sprintf("agent:x:%d:%d:agent:/workspace:/bin/sh\n", nobody, nobody)
		s.made["group"] = fmt.Sprintf("agent:x:%d:\n", nobody)
		s.made["nsswitch.conf"] = "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n"
		return s, nil
	}
	s.dir, s.names, s.etc = e.systems[place.Image], nil, []string{"*"}
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return s, fsys.E(fsys.NotExist, "the directory of image "+place.Image+" cannot be read: the operator of this daemon must repair it")
	}
	for _, entry := range entries {
		if !slices.Contains(provided, entry.Name()) {
			s.names = append(s.names, entry.Name())
		}
	}
	return s, nil
}

// arguments returns those that show it; base is where bubblewrap finds dir.
func (s system) arguments(base string, files *files) ([]string, error) {
	var args []string
	for _, name := range s.names {
		more, err := show(filepath.Join(s.dir, name), filepath.Join(base, name), "/"+name)
		if err != nil && !os.IsNotExist(err) {
			return nil, err
		}
		args = append(args, more...)
	}
	if !slices.Contains(s.names, "var") {
		args = append(args, "--symlink", "/tmp", "/var/tmp")
	}
	etc := os.DirFS(filepath.Join(s.dir, "etc"))
	for _, pattern := range s.etc {
		names, err := fs.Glob(etc, pattern)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if _, made := s.made[name]; made {
				continue
			}
			name = "etc/" + name
			more, err := show(filepath.Join(s.dir, name), filepath.Join(base, name), "/"+name)
			if err != nil {
				return nil, err
			}
			args = append(args, more...)
		}
	}
	for name, text := range s.made {
		fd, err := files.add(name, []byte(text))
		if err != nil {
			return nil, err
		}
		args = append(args, "--perms", "0644", "--ro-bind-data", fd, "/etc/"+name)
	}
	return args, nil
}

// show returns the arguments that show path, which bubblewrap finds at found,
// read-only at the path at. A symbolic link is shown as what it is.
func show(path, found, at string) ([]string, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	switch {
	case info.Mode()&os.ModeSymlink != 0:
		target, err := os.Readlink(path)
		return []string{"--symlink", target, at}, err
	case info.IsDir(), info.Mode().IsRegular():
		return []string{"--ro-bind", found, at}, nil
	}
	return nil, nil
}

// sources are where bubblewrap finds what it shows.
type sources struct {
	workspace, skills, helper string
	find                      func(dir string) string // nil: where it is
}

// arguments returns all of bubblewrap's. What comes later is mounted over what
// came before.
func (e *engine) arguments(r *run, place folder.Place, from sources) ([]string, error) {
	files := &r.files
	status, err := r.report()
	if err != nil {
		return nil, err
	}
	in := sandboxes.Inside()
	id := strconv.Itoa(nobody)
	args := []string{
		"--unshare-all", "--unshare-user", "--disable-userns", "--uid", id, "--gid", id,
		"--hostname", "sandbox", "--cap-drop", "ALL", "--new-session", "--die-with-parent", "--as-pid-1",
		"--json-status-fd", status,
	}
	if place.Limits.Network {
		args = append(args, "--share-net")
	}
	if f := filter(); f != nil {
		fd, err := files.add("seccomp", f)
		if err != nil {
			return nil, err
		}
		args = append(args, "--seccomp", fd)
	}
	sys, err := e.system(place)
	if err != nil {
		return nil, err
	}
	base := sys.dir
	if base != "/" && from.find != nil {
		base = from.find(base)
	}
	shown, err := sys.arguments(base, files)
	if err != nil {
		return nil, err
	}
	memory := strconv.FormatInt(inMemory(place.Limits), 10)
	return slices.Concat(args, shown, []string{
		"--proc", "/proc",
		"--dev", "/dev", "--perms", "1777", "--size", memory, "--tmpfs", "/dev/shm", "--remount-ro", "/dev",
		"--perms", "1777", "--size", memory, "--tmpfs", in.Tmp,
		"--perms", "0700", "--size", strconv.Itoa(1 << 20), "--tmpfs", filepath.Dir(in.Socket),
		"--bind", from.workspace, in.Workspace,
		"--ro-bind", from.skills, in.Skills,
		"--ro-bind", from.helper, in.Helper,
		"--remount-ro", "/",
		"--chdir", in.Workspace,
	}), nil
}

// inMemory is how much each of the file systems in memory may have: what is in
// them is memory, so that they are full before the memory is.
func inMemory(l sandboxes.Limits) int64 {
	size := int64(256 << 20)
	if l.Memory > 0 {
		size = min(size, l.Memory/4)
	}
	if l.Disk > 0 {
		size = min(size, l.Disk)
	}
	return max(size, 1<<20)
}
