package main

import (
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"time"

	"agent9/fsys"
)

// A place is where a file is: here or in the tree.
type place interface {
	String() string
	// base is the last name of the path; empty if it has none of its own.
	base() string
	join(name string) place
	// look says what is there.
	look() (item, error)
	// list returns the names of what is in this directory.
	list() ([]string, error)
	// open gives what the file has now.
	open(it item) (io.ReadCloser, error)
	// store makes the file, with what it gives.
	store(it item, r io.Reader) error
	// mkdir makes a directory, if there is none, and finish gives it its mode
	// and time once everything is in it.
	mkdir(it item) error
	finish(it item) error
}

// An item is what is at a place.
type item struct {
	dir  bool
	size int64 // of a stream, what it has now; else only for the progress
	kind fsys.Kind
	perm fs.FileMode
	time time.Time // zero: it has none
	skip string    // why it cannot be copied
}

// A copying is what a cp does.
type copying struct {
	*session
	meter   *meter
	failed  error // the first failure
	skipped int
	example string
}

// top copies what the user named.
func (c *copying) top(from, to place) {
	it, err := from.look()
	switch {
	case err == nil && it.dir && !c.Bool("recursive"):
		err = fsys.E(fsys.IsDir, "it is a directory; copy it with -r")
	case err == nil && it.skip != "":
		err = fsys.E(fsys.Unsupported, it.skip)
	case err == nil && it.dir && within(from, to):
		err = fsys.E(fsys.Invalid, "a directory cannot be copied into itself")
	}
	if err != nil {
		c.fail(from, err)
		return
	}
	c.copy(from, to, it, 0)
}

// within reports whether to is from, or below it.
func within(from, to place) bool {
	a, tree := from.(*treePlace)
	b, same := to.(*treePlace)
	return tree && same && (a.path == "" || a.path == b.path || strings.HasPrefix(b.path, a.path+"/"))
}

// maxDepth is how deep a tree is followed: a link may lead back into itself.
const maxDepth = 64

func (c *copying) copy(from, to place, it item, depth int) {
	if c.Context.Err() != nil {
		return
	}
	var err error
	switch {
	case it.skip != "":
		c.skipped++
		c.example = from.String()
	case depth > maxDepth:
		err = fsys.E(fsys.Invalid, fmt.Sprintf("it is more than %d directories deep, or leads back into itself", maxDepth))
	case it.dir:
		err = c.directory(from, to, it, depth)
	default:
		c.meter.begin(from.String())
		err = c.file(from, to, it)
	}
	if err != nil {
		c.fail(from, err)
	}
}

func (c *copying) directory(from, to place, it item, depth int) error {
	names, err := from.list()
	if err != nil {
		return err
	}
	if err := to.mkdir(it); err != nil {
		return at(to.String(), err)
	}
	for _, name := range names {
		inner := from.join(name)
		item, err := inner.look()
		if err == nil {
			err = goodName(name)
		}
		if err != nil {
			c.fail(inner, err)
			continue
		}
		c.copy(inner, to.join(name), item, depth+1)
	}
	return at(to.String(), to.finish(it))
}

// goodName refuses a name that would leave the directory, here or there.
func goodName(name string) error {
	if !filepath.IsLocal(name) || path.Base(name) != name || filepath.Base(name) != name || name == "." {
		return fsys.E(fsys.Invalid, "a file of this name cannot be copied")
	}
	return nil
}

func (c *copying) file(from, to place, it item) error {
	r, err := from.open(it)
	if err != nil {
		return err
	}
	defer r.Close()
	return at(to.String(), to.store(it, c.meter.reader(r)))
}

func (c *copying) fail(p place, err error) {
	if c.Context.Err() != nil {
		return
	}
	c.meter.clear()
	status := report(c.Context.Context, c.App.ErrWriter, at(p.String(), err))
	if c.failed == nil {
		c.failed = reported(status)
	}
}
