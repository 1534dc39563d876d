package main

import (
	"bytes"
	"fmt"
	"io"
	"path"
	"strings"

	"agent9/fsys"
)

// each does f for every path, and returns the errors of all.
func each(paths []string, f func(p string) error) error {
	for _, p := range paths {
		if err := f(p); err != nil {
			return &pathError{p, err}
		}
	}
	return nil
}

func (s *session) ls(paths []string) error {
	if len(paths) == 0 {
		paths = []string{"/"}
	}
	return each(paths, func(p string) error {
		n, err := s.root.WalkPath(s.ctx, p)
		if err != nil {
			return err
		}
		entries, err := fsys.List(s.ctx, n)
		titled := len(paths) > 1
		if err != nil && fsys.CodeOf(err) == fsys.NotDir {
			entries, err, titled = []fsys.Entry{{Name: p}}, nil, false
		}
		if err != nil {
			return err
		}
		if titled {
			fmt.Fprintf(s.out, "%s:\n", p)
		}
		for _, e := range entries {
			if _, err := io.WriteString(s.out, e.Name+"\n"); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *session) cat(paths []string) error {
	return each(paths, func(p string) error {
		h, err := s.root.OpenPath(s.ctx, p, fsys.Read)
		if err != nil {
			return err
		}
		if err := s.copyOut(h); err != nil {
			return err
		}
		return fsys.Finish(s.ctx, h)
	})
}

// copyOut prints what h has, as it comes.
func (s *session) copyOut(h fsys.Handle) error {
	buf := make([]byte, 256<<10)
	for off := int64(0); ; {
		n, err := fsys.ReadAt(s.ctx, h, buf, off)
		off += int64(n)
		if _, werr := s.out.Write(buf[:n]); werr != nil {
			return werr
		}
		if fsys.IsEOF(err) || err == nil && n == 0 {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// input is what to write: the words, as echo says them, or the input.
func (s *session) input(words []string) io.Reader {
	if len(words) == 0 {
		return s.in
	}
	return strings.NewReader(strings.Join(words, " ") + "\n")
}

func (s *session) write(args []string) error {
	return each(args[:1], func(p string) error {
		h, err := s.openToWrite(p)
		if err != nil {
			return err
		}
		if err := s.copyIn(h, s.input(args[1:])); err != nil {
			h.Close()
			return err
		}
		return fsys.Finish(s.ctx, h)
	})
}

// openToWrite opens the file at p, empty, and makes it if there is none.
func (s *session) openToWrite(p string) (fsys.Handle, error) {
	dir, name := path.Split(path.Clean("/" + p))
	n, err := s.root.WalkPath(s.ctx, dir)
	if err != nil {
		return nil, err
	}
	if name == "" {
		return nil, fsys.IsDir
	}
	_, h, err := fsys.OpenCreate(s.ctx, n, name, 0o666, fsys.Write|fsys.Trunc)
	return h, err
}

func (s *session) copyIn(h fsys.Handle, in io.Reader) error {
	buf := make([]byte, 256<<10)
	for off := int64(0); ; {
		n, rerr := in.Read(buf)
		if n > 0 {
			if _, err := fsys.WriteAt(s.ctx, h, buf[:n], off); err != nil {
				return err
			}
			off += int64(n)
		}
		if rerr == io.EOF {
			return nil
		}
		if rerr != nil {
			return rerr
		}
	}
}

// call writes all at once, so that it is one request, and prints the reply.
func (s *session) call(args []string) error {
	req, err := io.ReadAll(io.LimitReader(s.input(args[1:]), fsys.MaxMessage+1))
	if err != nil {
		return err
	}
	if len(bytes.TrimSpace(req)) == 0 {
		return fsys.E(fsys.Invalid, "there is nothing to write: give words, or an input")
	}
	return each(args[:1], func(p string) error {
		h, err := s.root.OpenPath(s.ctx, p, fsys.Read|fsys.Write)
		if err != nil {
			return err
		}
		if _, err := fsys.WriteAt(s.ctx, h, req, 0); err != nil {
			h.Close()
			return err
		}
		if err := s.copyOut(h); err != nil {
			h.Close()
			return err
		}
		return fsys.Finish(s.ctx, h)
	})
}

func (s *session) rm(paths []string) error {
	return each(paths, func(p string) error {
		n, err := s.root.WalkPath(s.ctx, p)
		if err != nil {
			return err
		}
		return fsys.Remove(s.ctx, n)
	})
}

func (s *session) mkdir(paths []string) error {
	return each(paths, func(p string) error {
		dir, name := path.Split(path.Clean("/" + p))
		n, err := s.root.WalkPath(s.ctx, dir)
		if err != nil {
			return err
		}
		_, err = fsys.Mkdir(s.ctx, n, name, 0o777)
		return err
	})
}
