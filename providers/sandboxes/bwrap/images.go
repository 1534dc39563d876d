//go:build linux

package bwrap

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"agent9/fsys"
	"agent9/providers/sandboxes/bwrap/launch"
	"agent9/providers/sandboxes/folder"
)

// images makes file systems in files, of ext4. An image takes of the disk what
// is in it, and has its size at most.
type images struct {
	// dir has the empty ones, by their size: to copy one is a hundredth of the work.
	dir string
}

// What the file system takes for itself of an image, besides a 24th.
const (
	imageOwn     = 6 << 20
	imageJournal = 4 // MiB
	imageBlock   = 4096
)

// imageSize is the size of an image that has room for as many bytes.
func imageSize(bytes int64) int64 {
	return (bytes + bytes/24 + imageOwn + imageBlock - 1) / imageBlock * imageBlock
}

// halfImage begins the name of an image that is being made.
const halfImage = ".new-image-"

// tool runs a program of e2fsprogs.
func tool(ctx context.Context, name string, args ...string) error {
	for _, dir := range []string{"", "/usr/sbin/", "/sbin/"} {
		path, err := exec.LookPath(dir + name)
		if err != nil {
			continue
		}
		out, err := exec.CommandContext(ctx, path, args...).CombinedOutput()
		if err != nil {
			return fsys.E(fsys.Unavailable, name+": "+err.Error()+": "+strings.Join(strings.Fields(string(out)), " "))
		}
		return nil
	}
	return fsys.E(fsys.Unavailable, name+" is not installed: install the package e2fsprogs")
}

// empty returns an image of a size with nothing in it.
func (i *images) empty(ctx context.Context, size int64) (string, error) {
	path := filepath.Join(i.dir, "empty-"+strconv.FormatInt(size, 10))
	if _, err := os.Lstat(path); err == nil {
		return path, nil
	}
	return path, i.whole(path, func(half *os.File) error {
		if err := half.Truncate(size); err != nil {
			return err
		}
		return tool(ctx, "mkfs.ext4", "-q", "-F", "-m", "0", "-b", fmt.Sprint(imageBlock), "-i", "8192",
			"-J", fmt.Sprint("size=", imageJournal), "-E", "lazy_itable_init=1,lazy_journal_init=1", half.Name())
	})
}

// make makes the image of a new workspace; see [folder.Engine].
func (i *images) make(ctx context.Context, place folder.Place) error {
	if _, err := os.Lstat(place.Workspace); err == nil {
		return fsys.Exist
	}
	from, err := i.empty(ctx, imageSize(place.Limits.Disk))
	if err == nil {
		err = i.whole(place.Workspace, func(half *os.File) error {
			if err := copySparse(half, from); err != nil {
				return err
			}
			return folder.Mark(half.Name(), place.Owner)
		})
	}
	return fsys.Wrap(fsys.CodeOf(err), "the file system of the workspace", err)
}

// fit gives an image the size of its limit. If there is more in it, it has as
// much room as that takes, so that files can be read and removed.
func (i *images) fit(ctx context.Context, place folder.Place) error {
	if place.Limits.Disk <= 0 {
		return nil
	}
	was, err := os.OpenFile(place.Workspace, os.O_RDWR|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer was.Close()
	info, err := was.Stat()
	size := imageSize(place.Limits.Disk)
	if err != nil || info.Size() == size {
		return err
	}
	if err := launch.Hold(was); err != nil { // the last run may still be writing
		return err
	}
	err = i.replace(place.Workspace, func(half *os.File) error {
		if err := copySparse(half, place.Workspace); err != nil {
			return err
		}
		if size > info.Size() {
			if err := half.Truncate(size); err != nil {
				return err
			}
		}
		name := half.Name()
		if err := tool(ctx, "e2fsck", "-f", "-p", name); err != nil {
			return err
		}
		if tool(ctx, "resize2fs", name, strconv.FormatInt(size>>10, 10)+"K") != nil {
			if err := tool(ctx, "resize2fs", "-M", name); err != nil {
				return err
			}
		}
		return folder.Mark(name, place.Owner)
	})
	return fsys.Wrap(fsys.Unavailable, "the size of the workspace", err)
}

// whole makes a file at path that is all there or not at all. Exist: there is
// one.
func (i *images) whole(path string, fill func(half *os.File) error) error {
	return i.filled(path, fill, func(half string) error {
		err := os.Link(half, path)
		if errors.Is(err, fs.ErrExist) && filepath.Dir(path) == i.dir {
			return nil // it is the same
		}
		return err
	})
}

// replace is whole of a file that is there.
func (i *images) replace(path string, fill func(half *os.File) error) error {
	return i.filled(path, fill, func(half string) error { return os.Rename(half, path) })
}

func (i *images) filled(path string, fill func(*os.File) error, place func(half string) error) error {
	half, err := os.CreateTemp(filepath.Dir(path), halfImage)
	if err != nil {
		return err
	}
	defer half.Close()
	defer os.Remove(half.Name())
	if err := fill(half); err != nil {
		return err
	}
	return place(half.Name())
}

// copySparse makes to what the file from is, with its holes.
func copySparse(to *os.File, from string) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := to.Truncate(info.Size()); err != nil {
		return err
	}
	for at := int64(0); ; {
		data, err := unix.Seek(int(f.Fd()), at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return nil
		}
		if err != nil {
			return err
		}
		if at, err = unix.Seek(int(f.Fd()), data, unix.SEEK_HOLE); err != nil {
			return err
		}
		part := io.NewSectionReader(f, data, at-data)
		if _, err := io.Copy(io.NewOffsetWriter(to, data), part); err != nil {
			return err
		}
	}
}
