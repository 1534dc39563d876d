//go:build unix

package box

import (
	"context"
	"io"
	"io/fs"
	"os"
	"syscall"

	"agent9/fsys"
)

// directory says that n is one that has anything.
func (n *node) directory() error {
	s, err := n.look()
	switch {
	case err != nil:
		return err
	case s.broken != "" || !s.info.IsDir():
		return fsys.NotDir
	case s.hidden:
		return fsys.E(fsys.Permission, "this is the kernel's, and not shown")
	}
	return nil
}

func (n *node) Walk(ctx context.Context, name string) (fsys.Node, error) {
	child := n.child(name)
	err := n.disk.do(ctx, func() error {
		s, err := n.look()
		switch {
		case err != nil:
			return err
		case s.broken != "" || !s.info.IsDir():
			return fsys.NotDir
		case s.hidden || fsys.CheckName(name) != nil:
			return fsys.NotExist
		}
		_, err = child.look()
		return err
	})
	if err != nil {
		return nil, err
	}
	return child, nil
}

// maxEntries is how many entries of a directory are listed.
const maxEntries = 100_000

// List leaves out what has no name in UTF-8.
func (n *node) List(ctx context.Context) (entries []fsys.Entry, err error) {
	err = n.disk.do(ctx, func() error {
		s, err := n.look()
		switch {
		case err != nil:
			return err
		case s.broken != "" || !s.info.IsDir():
			return fsys.NotDir
		case s.hidden:
			return nil
		}
		f, err := n.disk.OpenFile(n.name, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
		if err != nil {
			return failure(err)
		}
		defer f.Close()
		names, err := f.Readdirnames(maxEntries + 1)
		if len(names) > maxEntries {
			return fsys.E(fsys.TooLarge, "there are too many files in this directory to list them")
		}
		for _, name := range names {
			if fsys.CheckName(name) == nil {
				entries = append(entries, fsys.Entry{Name: name, Node: n.child(name)})
			}
		}
		if err == io.EOF {
			err = nil // it is empty
		}
		return failure(err)
	})
	return entries, err
}

func (n *node) Create(ctx context.Context, name string, perm fs.FileMode, flag fsys.Flag) (fsys.Node, fsys.Handle, error) {
	if err := fsys.CheckName(name); err != nil {
		return nil, nil, err
	}
	child := n.child(name)
	var f *os.File
	err := n.disk.do(ctx, func() (err error) {
		if err := n.directory(); err != nil {
			return err
		}
		f, err = n.disk.OpenFile(child.name, osFlag(flag)|os.O_CREATE|os.O_EXCL, perm.Perm())
		return failure(err)
	})
	if err != nil {
		return nil, nil, err
	}
	return child, &fileHandle{disk: n.disk, file: f, flag: flag}, nil
}

func (n *node) Mkdir(ctx context.Context, name string, perm fs.FileMode) (fsys.Node, error) {
	if err := fsys.CheckName(name); err != nil {
		return nil, err
	}
	child := n.child(name)
	err := n.disk.do(ctx, func() error {
		if err := n.directory(); err != nil {
			return err
		}
		return failure(n.disk.Mkdir(child.name, perm.Perm()))
	})
	if err != nil {
		return nil, err
	}
	return child, nil
}

// Rename renames a link, not what it leads to.
func (n *node) Rename(ctx context.Context, name, newName string) error {
	if err := fsys.CheckName(newName); err != nil {
		return err
	}
	return n.disk.do(ctx, func() error {
		if err := n.directory(); err != nil {
			return err
		}
		return failure(n.disk.Rename(n.child(name).name, n.child(newName).name))
	})
}

// Remove removes a link, not what it leads to.
func (n *node) Remove(ctx context.Context) error {
	if n.up == nil {
		return fsys.E(fsys.Permission, "this is all that there is of the sandbox")
	}
	return n.disk.do(ctx, func() error {
		if err := n.up.directory(); err != nil {
			return err
		}
		return failure(n.disk.Remove(n.name))
	})
}
