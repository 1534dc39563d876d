//go:build linux

package launch

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// A Stage is a directory that shows, in the new mount namespace only, what the
// sandbox is made of. What is shown as a file system of its own tells nothing
// of where it comes from: mountinfo(5) gives the path of a bind mount in its
// file system, and the words that another was mounted with.
type Stage struct {
	Dir   string `json:"dir"` // hidden by it
	Shows []Show `json:"shows"`
}

// A Show is one thing on a stage.
type Show struct {
	Path string `json:"path"`
	How  How    `json:"how"`
	File string `json:"file,omitempty"` // of Readable: of the directory only this
	Work string `json:"work,omitempty"` // of Writable: a directory of its own in the same file system
	Own  bool   `json:"own,omitempty"`  // what is in the directory is made the owner's
	Lost bool   `json:"lost,omitempty"` // of Image: it may be, if the power fails; that saves waiting for the disk
}

// How something is shown.
type How string

const (
	Bound    How = "bound"    // as it is
	Readable How = "readable" // a directory, as an overlay of nothing on it
	Writable How = "writable" // a directory, as an overlay of it on nothing
	Image    How = "image"    // a file system in a file, of which Workspace is shown
)

// Workspace is the directory in an image that is used.
const Workspace = "workspace"

// Add shows something on the stage and returns where.
func (s *Stage) Add(show Show) string {
	at := s.at(len(s.Shows))
	s.Shows = append(s.Shows, show)
	switch {
	case show.How == Image:
		return filepath.Join(at, Workspace)
	case show.File != "":
		return at + file
	}
	return at
}

func (s *Stage) at(n int) string { return filepath.Join(s.Dir, strconv.Itoa(n)) }

const (
	nothing = "nothing" // an empty directory on the stage
	file    = "-file"   // ends the name of one file of a directory
)

// mount mounts the stage. Everything is opened before Dir is hidden, because
// it may be below it. What is new in an image is owner's.
func (s *Stage) mount(owner *User) error {
	if s == nil {
		return nil
	}
	opened := make([]source, len(s.Shows))
	for i, show := range s.Shows {
		var err error
		if show.Own && owner != nil {
			err = Own(show.Path, owner.UID, owner.GID)
		}
		if err == nil {
			opened[i], err = show.open()
		}
		if err != nil {
			return &os.PathError{Op: "open", Path: show.Path, Err: err}
		}
	}
	if err := unix.Mount("tmpfs", s.Dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755"); err != nil {
		return &os.PathError{Op: "mount", Path: s.Dir, Err: err}
	}
	if err := os.Mkdir(filepath.Join(s.Dir, nothing), 0o755); err != nil {
		return err
	}
	for i, show := range s.Shows {
		if err := s.show(show, opened[i], s.at(i), owner); err != nil {
			return &os.PathError{Op: "show as " + string(show.How), Path: show.Path, Err: err}
		}
	}
	return os.Chdir("/")
}

// A source is what is shown, and the work directory or loop device, by their
// descriptors.
type source struct{ fd, extra int }

func (s Show) open() (src source, err error) {
	src.extra = -1
	if s.How == Image {
		src.fd, src.extra, err = attach(s.Path)
		return src, err
	}
	src.fd, err = unix.Open(s.Path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err == nil && s.Work != "" {
		src.extra, err = unix.Open(s.Work, unix.O_PATH|unix.O_CLOEXEC, 0)
	}
	return src, err
}

func (s *Stage) show(show Show, src source, at string, owner *User) error {
	path := fmt.Sprintf("/proc/self/fd/%d", src.fd)
	if show.How == Bound {
		return bind(src.fd, path, at)
	}
	if err := os.Mkdir(at, 0o755); err != nil {
		return err
	}
	const safe = unix.MS_NOSUID | unix.MS_NODEV
	switch show.How {
	case Readable:
		err := s.overlay(at, safe|unix.MS_RDONLY, fmt.Sprintf("lowerdir=%s:%s", path, nothing))
		if err != nil || show.File == "" {
			return err
		}
		if err := os.WriteFile(at+file, nil, 0o644); err != nil {
			return err
		}
		return unix.Mount(filepath.Join(at, show.File), at+file, "", unix.MS_BIND, "")
	case Writable:
		return s.overlay(at, safe, fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=/proc/self/fd/%d,userxattr", nothing, path, src.extra))
	case Image:
		defer unix.Close(src.fd)
		defer unix.Close(src.extra)
		device := fmt.Sprintf("/proc/self/fd/%d", src.extra)
		words := "noinit_itable,discard"
		if show.Lost {
			words += ",barrier=0"
		}
		if err := unix.Mount(device, at, "ext4", safe, words); err != nil {
			return err
		}
		return workspace(filepath.Join(at, Workspace), owner)
	}
	return fmt.Errorf("nothing can be shown as %s", show.How)
}

// overlay mounts an overlay. The words show at each mount what it is made of,
// which is numbers and nothing.
func (s *Stage) overlay(at string, flags uintptr, words string) error {
	if err := os.Chdir(s.Dir); err != nil {
		return err
	}
	return unix.Mount("overlay", at, "overlay", flags, words)
}

// workspace makes sure that a directory is there and the owner's.
func workspace(dir string, owner *User) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !os.IsExist(err) {
		return err
	}
	if owner == nil {
		return nil
	}
	return Own(dir, owner.UID, owner.GID)
}

// bind shows at path what fd is.
func bind(fd int, from, path string) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	var err error
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		err = os.Mkdir(path, 0o755)
	} else {
		err = os.WriteFile(path, nil, 0o644)
	}
	if err != nil {
		return err
	}
	return unix.Mount(from, path, "", unix.MS_BIND|unix.MS_REC, "")
}
