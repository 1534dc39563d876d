// Package fstest checks that a tree is coherent. It needs no test around it, so it
// can be run on a tree that is in use, as agentctl check does.
package fstest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"agent9/fsys"
)

// maxDeep is how many entries of one directory CheckTree looks into; of the
// rest it only checks the names.
const maxDeep = 64

// CheckTree walks everything under root and reports every way in which it is
// not a coherent tree, joined into one error. What disappears while it looks is
// no finding. It tries what must be refused, too, and begins conversations: for
// a tree that others use there is [LookAtTree]. The paths
// in want must exist.
func CheckTree(ctx context.Context, root fsys.Node, want ...string) error {
	c := &checker{ctx: ctx}
	info, err := root.Stat(ctx)
	if err != nil {
		c.errorf("", "Stat of the root: %v", err)
	} else {
		c.node("", root, info)
	}
	for _, p := range want {
		if _, err := fsys.WalkPath(ctx, root, p); err != nil {
			c.errorf(p, "expected, but Walk says: %v", err)
		}
	}
	return errors.Join(c.errs...)
}

// LookAtTree is CheckTree for a tree that is in use: it opens nothing for
// writing and no Message, walks to nothing that is not listed, and ends with
// ctx. begin is told each path before it is looked at.
func LookAtTree(ctx context.Context, root fsys.Node, begin func(path string)) error {
	c := &checker{ctx: ctx, begin: begin}
	info, err := root.Stat(ctx)
	if ctx.Err() != nil {
		return nil // the end of ctx is no finding
	}
	if err != nil {
		return err
	}
	c.node("", root, info)
	return errors.Join(c.errs...)
}

type checker struct {
	ctx   context.Context
	begin func(path string) // nil: it may do what is refused
	errs  []error
}

func (c *checker) errorf(path, format string, args ...any) {
	if c.ctx.Err() != nil {
		return // the end of ctx is no finding
	}
	c.errs = append(c.errs, fmt.Errorf("/%s: %s", path, fmt.Sprintf(format, args...)))
}

// absent is a name that no directory has: a client could not have made it by
// accident.
const absent = "no such name \x7f"

func (c *checker) node(path string, n fsys.Node, info fsys.Info) {
	if c.begin != nil {
		c.begin(path)
	}
	if info.Kind == fsys.Directory {
		c.dir(path, n)
		return
	}
	if c.begin == nil {
		c.refuses(path, n, info)
	}
	switch info.Kind {
	case fsys.File:
		c.file(path, n, info)
	case fsys.Message:
		c.message(path, n, info)
	case fsys.Stream:
		c.stream(path, n)
	default:
		c.errorf(path, "Stat: no such kind as %d", info.Kind)
	}
}

// refuses checks what must be refused of a file.
func (c *checker) refuses(path string, n fsys.Node, info fsys.Info) {
	if _, err := fsys.Walk(c.ctx, n, "x"); fsys.CodeOf(err) != fsys.NotDir {
		c.errorf(path, "Walk through a file: got %v, want %v", err, fsys.NotDir)
	}
	if info.Perm&0o222 == 0 {
		c.readOnly(path, n)
	}
}

func (c *checker) dir(path string, n fsys.Node) {
	if c.begin == nil {
		if h, err := n.Open(c.ctx, fsys.Write); err == nil {
			h.Close()
			c.errorf(path, "a directory can be opened for writing")
		}
		if _, err := fsys.Walk(c.ctx, n, absent); fsys.CodeOf(err) != fsys.NotExist && fsys.CodeOf(err) != fsys.Permission {
			c.errorf(path, "Walk to a missing name: got %v, want %v", err, fsys.NotExist)
		}
	}
	list, err := fsys.List(c.ctx, n)
	if fsys.CodeOf(err) == fsys.Permission && err != nil {
		return // it is somebody else's, such as /root in a sandbox
	}
	if err != nil {
		c.errorf(path, "List: %v", err)
		return
	}
	seen := make(map[string]bool, len(list))
	for i, e := range list {
		p := path + "/" + e.Name
		if path == "" {
			p = e.Name
		}
		if err := fsys.CheckName(e.Name); err != nil {
			c.errorf(path, "lists %q, which cannot be a name: %v", e.Name, err)
			continue
		}
		if seen[e.Name] {
			c.errorf(p, "listed twice")
		}
		seen[e.Name] = true
		if i < maxDeep && c.ctx.Err() == nil {
			c.entry(p, n, e)
		}
	}
}

// entry checks that what is listed is what is walked to.
func (c *checker) entry(path string, dir fsys.Node, e fsys.Entry) {
	walked, err := fsys.Walk(c.ctx, dir, e.Name)
	if err != nil {
		if c.still(dir, e.Name) {
			c.errorf(path, "listed, but Walk says: %v", err)
		}
		return
	}
	info, err := walked.Stat(c.ctx)
	if err != nil {
		if c.still(dir, e.Name) {
			c.errorf(path, "Stat: %v", err)
		}
		return
	}
	if listed, err := e.Node.Stat(c.ctx); err == nil && listed.Kind != info.Kind {
		c.errorf(path, "List and Walk disagree: a %v and a %v", listed.Kind, info.Kind)
	}
	c.safe(path, walked, info)
	c.node(path, walked, info)
}

// safe checks of what the listing of a mount has that a read from start to end
// takes nothing away and comes to its end.
func (c *checker) safe(path string, n fsys.Node, info fsys.Info) {
	quiet, err := n.Stat(fsys.WithoutStart(c.ctx))
	if err != nil || !quiet.Safe() || info.Kind == fsys.Directory {
		return
	}
	if fsys.Takes(n) {
		c.errorf(path, "it would be listed at mounts, and a read takes something away")
		return
	}
	h := c.open(path, n)
	if h == nil {
		return
	}
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		p := make([]byte, 64<<10)
		for off := int64(0); off < maxRead; {
			m, err := fsys.ReadAt(ctx, h, p, off)
			if err != nil || m == 0 { // a refusal is an end too
				return
			}
			off += int64(m)
		}
	}()
	select {
	case <-done:
		c.close(path, h)
	case <-time.After(patience):
		c.errorf(path, "it would be listed at mounts, and a read of all of it waits")
	}
}

// still reports whether name is listed now too: if it is not, it was removed
// while we looked.
func (c *checker) still(dir fsys.Node, name string) bool {
	list, err := fsys.List(c.ctx, dir)
	for _, e := range list {
		if e.Name == name {
			return true
		}
	}
	return err != nil
}

func (c *checker) readOnly(path string, n fsys.Node) {
	h, err := n.Open(c.ctx, fsys.Write)
	if err == nil {
		h.Close()
	}
	if fsys.CodeOf(err) != fsys.Permission {
		c.errorf(path, "without write permission, opened for writing: got %v, want %v", err, fsys.Permission)
	}
}

// open opens a node that its permissions allow to be read; a file that cannot
// be opened now (a gate, a busy file) has nothing more to check.
func (c *checker) open(path string, n fsys.Node) fsys.Handle {
	h, err := n.Open(c.ctx, fsys.Read)
	switch fsys.CodeOf(err) {
	case fsys.Permission, fsys.Busy, fsys.NotExist, fsys.Exhausted:
		if err != nil {
			return nil
		}
	}
	if err != nil {
		c.errorf(path, "Open: %v", err)
		return nil
	}
	return h
}

func (c *checker) close(path string, h fsys.Handle) {
	if err := h.Close(); err != nil {
		c.errorf(path, "Close: %v", err)
	}
	h.Close() // a second one must not panic
}

// maxRead bounds what is read of one file.
const maxRead = 1 << 20

// file checks that one open is one snapshot, as long as Stat says, readable in
// any order.
func (c *checker) file(path string, n fsys.Node, info fsys.Info) {
	h := c.open(path, n)
	if h == nil {
		return
	}
	defer c.close(path, h)
	all, err := c.readUpTo(h, maxRead)
	if err != nil {
		c.errorf(path, "Read: %v", err)
		return
	}
	if int64(len(all)) < min(info.Size, maxRead) {
		// It may have changed in between; a tree that lies does so again.
		if again, err := n.Stat(c.ctx); err == nil && again.Size == info.Size {
			c.errorf(path, "Stat says %d bytes, a read finds %d", info.Size, len(all))
		}
	}
	if info.Perm&0o222 == 0 && info.Version == 0 && len(all) > 0 && len(all) < maxRead && all[len(all)-1] != '\n' {
		c.errorf(path, "does not end in a newline")
	}
	for _, off := range []int{len(all) / 2, len(all) / 3, 0} {
		p := make([]byte, 16)
		m, err := fsys.ReadAt(c.ctx, h, p, int64(off))
		if err != nil && !fsys.IsEOF(err) {
			c.errorf(path, "Read at %d: %v", off, err)
		} else if !bytes.Equal(p[:m], all[off:min(off+m, len(all))]) {
			c.errorf(path, "reads at different offsets disagree")
		}
	}
	if m, _ := fsys.ReadAt(c.ctx, h, make([]byte, 1), info.Size+1<<40); m != 0 {
		c.errorf(path, "a read past the end returned %d bytes", m)
	}
	if c.begin != nil {
		return
	}
	if _, err := fsys.WriteAt(c.ctx, h, []byte("x"), 0); err == nil {
		c.errorf(path, "written through a handle that is open for reading")
	}
}

func (c *checker) readUpTo(h fsys.Handle, limit int) ([]byte, error) {
	b := make([]byte, limit)
	for n := 0; ; {
		m, err := fsys.ReadAt(c.ctx, h, b[n:], int64(n))
		n += m
		if fsys.IsEOF(err) || err == nil && m == 0 || n == limit {
			return b[:n], nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// message checks that a conversation has no size and waits for no one.
func (c *checker) message(path string, n fsys.Node, info fsys.Info) {
	if info.Size != 0 {
		c.errorf(path, "a message file has size %d", info.Size)
	}
	if c.begin != nil {
		return
	}
	if err := fsys.Truncate(c.ctx, n, 0); err != nil && fsys.CodeOf(err) != fsys.Permission {
		c.errorf(path, "a shell's > could not truncate it: %v", err)
	}
	if h := c.open(path, n); h != nil {
		c.returns(path, h, 0, "a read before a request")
		c.close(path, h)
	}
}

// stream checks that a cancelled read returns, and that two readers see the
// same. It reads no more than a byte of what may be given only once.
func (c *checker) stream(path string, n fsys.Node) {
	h := c.open(path, n)
	if h == nil {
		return
	}
	defer c.close(path, h)
	c.returns(path, h, 1<<40, "a cancelled read")
	info, err := n.Stat(c.ctx)
	if err != nil || info.Size == 0 {
		return
	}
	h2 := c.open(path, n)
	if h2 == nil {
		return
	}
	defer c.close(path, h2)
	p, q := make([]byte, min(info.Size, 4096)), make([]byte, min(info.Size, 4096))
	m, err := fsys.ReadAt(c.ctx, h, p, 0)
	m2, err2 := fsys.ReadAt(c.ctx, h2, q, 0)
	switch {
	case err != nil || err2 != nil || m == 0:
		c.errorf(path, "Stat says %d bytes, but reads give %d, %v and %v", info.Size, m, err, err2)
	case !bytes.Equal(p[:min(m, m2)], q[:min(m, m2)]):
		c.errorf(path, "two readers see different bytes")
	}
}

// patience is how long a cancelled read may take to return.
const patience = 5 * time.Second

// returns checks that a read of one byte that is cancelled soon comes back.
func (c *checker) returns(path string, h fsys.Handle, off int64, what string) {
	ctx, cancel := context.WithTimeout(c.ctx, 10*time.Millisecond)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		fsys.ReadAt(ctx, h, make([]byte, 1), off)
	}()
	select {
	case <-done:
	case <-time.After(patience):
		c.errorf(path, "%s did not return", what)
	}
}
