package main

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"agent9/fsys"
)

// A diskPlace is on this machine.
type diskPlace struct {
	*session
	path, name string
	below      bool // it was found in a directory
}

var _ place = (*diskPlace)(nil)

func (d *diskPlace) String() string { return d.name }

func (d *diskPlace) base() string {
	switch base := filepath.Base(d.path); base {
	case ".", "..", string(filepath.Separator):
		return ""
	default:
		return base
	}
}

func (d *diskPlace) join(name string) place {
	return &diskPlace{d.session, filepath.Join(d.path, name), filepath.Join(d.name, name), true}
}

// look follows a link that the user named, and one to a file: one to a
// directory may lead anywhere, and is left out.
func (d *diskPlace) look() (item, error) {
	info, err := os.Stat(d.path)
	if err != nil {
		return item{}, bare(err)
	}
	it := item{dir: info.IsDir(), perm: info.Mode().Perm(), time: info.ModTime()}
	switch link, err := os.Lstat(d.path); {
	case err != nil:
		return item{}, bare(err)
	case d.below && it.dir && link.Mode()&fs.ModeSymlink != 0:
		it.skip = "it is a link to a directory"
	case !it.dir && !info.Mode().IsRegular():
		it.skip = "it is no ordinary file"
	}
	return it, nil
}

func (d *diskPlace) list() (names []string, _ error) {
	entries, err := os.ReadDir(d.path)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, bare(err)
}

func (d *diskPlace) open(item) (io.ReadCloser, error) {
	f, err := os.Open(d.path)
	return f, bare(err)
}

// store writes beside the file, which it replaces when all is there.
func (d *diskPlace) store(it item, r io.Reader) error {
	path := d.path
	if to, err := filepath.EvalSymlinks(path); err == nil {
		path = to
	}
	switch old, err := os.Stat(path); {
	case err == nil && old.IsDir():
		return fsys.E(fsys.IsDir, "there is a directory of this name")
	case err == nil && !old.Mode().IsRegular():
		return d.pour(path, r)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".agentctl-*")
	if err != nil {
		return bare(err)
	}
	err = pourInto(f, r)
	if err == nil {
		err = f.Chmod(it.perm)
	}
	err = errors.Join(err, f.Close())
	if err == nil && !it.time.IsZero() {
		err = os.Chtimes(f.Name(), it.time, it.time)
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return bare(err)
}

// pour writes into what is no ordinary file, such as /dev/stdout.
func (d *diskPlace) pour(path string, r io.Reader) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return bare(err)
	}
	err = pourInto(f, r)
	return bare(errors.Join(err, f.Close()))
}

// pourInto copies in pieces that are worth a request each.
func pourInto(f *os.File, r io.Reader) error {
	_, err := io.CopyBuffer(struct{ io.Writer }{f}, r, make([]byte, 256<<10))
	return err
}

// mkdir makes a directory that can be written until finish.
func (d *diskPlace) mkdir(it item) error {
	err := os.Mkdir(d.path, it.perm|0o700)
	if info, serr := os.Stat(d.path); errors.Is(err, fs.ErrExist) && serr == nil && info.IsDir() {
		return nil
	}
	return bare(err)
}

func (d *diskPlace) finish(it item) error {
	if runtime.GOOS != "windows" {
		if err := os.Chmod(d.path, it.perm); err != nil {
			return bare(err)
		}
	}
	if it.time.IsZero() {
		return nil
	}
	return bare(os.Chtimes(d.path, it.time, it.time))
}

// bare is err without the path, which is said by who reports it.
func bare(err error) error {
	var p *fs.PathError
	var l *os.LinkError
	switch {
	case errors.As(err, &p):
		return fsys.E(fsys.CodeOf(err), p.Err.Error())
	case errors.As(err, &l):
		return fsys.E(fsys.CodeOf(err), l.Err.Error())
	}
	return err
}
