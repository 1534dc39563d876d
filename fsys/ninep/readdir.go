package ninep

import (
	"context"

	"agent9/fsys"
	"agent9/fsys/share"
)

// A listing is a directory as it was when it was read from the beginning.
// The session's mu guards it; entries do not change.
type listing struct {
	entries []fsys.Entry
	bytes   int64 // about what entries take
	taken   bool
	// 9P2000 only: the two offsets that may be read at, and which entries
	// they are. start is where the last reply began, for a client that asks
	// again after a flush.
	start, end     uint64
	startAt, endAt int
}

// readDir serves Treaddir, and Tread of a directory.
func (r *request) readDir() error {
	f, m := r.fid, &r.m
	if f.kind != fsys.Directory {
		return fsys.NotDir
	}
	r.s.mu.Lock()
	list, at, kept := f.list, f.at, false
	r.s.mu.Unlock()
	if m.Offset == 0 {
		entries, err := fsys.List(r.looking(), at.node)
		if err != nil {
			return err
		}
		list = listing{entries: entries, bytes: share.List(entries), taken: true}
		if !r.conn.data.Reserve(share.Files, list.bytes) {
			return share.ErrFull
		}
		defer func() {
			if !kept {
				r.conn.data.Give(share.Files, list.bytes)
			}
		}()
	}
	p, err := r.newData(int(min(m.Count, r.s.msize-readHeader)))
	if err != nil {
		return err
	}
	if r.s.dialect == linux {
		err = r.listLinux(&list, p)
	} else {
		err = r.listPlan9(&list, p)
	}
	if err != nil {
		return err
	}
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	if m.Offset == 0 {
		r.conn.data.Give(share.Files, f.list.bytes)
		f.bytes += list.bytes - f.list.bytes
		kept = true
	}
	f.list = list
	return nil
}

// looking is the context of listings, which start nothing unless who is
// attached has asked for all names.
func (r *request) looking() context.Context {
	if r.att.options.all {
		return r.ctx
	}
	return fsys.WithoutStart(r.ctx)
}

// lists reports whether a listing has what info is of.
func (r *request) lists(info fsys.Info) bool { return r.att.options.all || info.Safe() }

var (
	errDirOffset = fsys.E(fsys.Invalid, "a directory must be read from its beginning or from where the last read ended")
	errDirCount  = fsys.E(fsys.Invalid, "the count is too small for the next entry")
)

// listPlan9 fills p with whole stat entries.
func (r *request) listPlan9(l *listing, p []byte) error {
	i := l.endAt
	switch r.m.Offset {
	case l.end:
	case l.start:
		i = l.startAt
	default:
		return errDirOffset
	}
	at, _ := r.place()
	ctx := r.looking()
	l.start, l.startAt = r.m.Offset, i
	b := p[:0]
	for ; i < len(l.entries); i++ {
		e := l.entries[i]
		info, err := e.Stat(ctx)
		if err := ctx.Err(); err != nil {
			return err
		}
		if err != nil || !r.lists(info) {
			continue // removed since, or only to be walked to
		}
		d := r.dirOf(e.Name, r.conn.srv.qidOf(at, e.Name, info), info)
		had := len(b)
		if b = appendDir(b, &d); len(b) > len(p) {
			b = b[:had]
			break
		}
	}
	if len(b) == 0 && i < len(l.entries) {
		return errDirCount
	}
	l.end, l.endAt = l.start+uint64(len(b)), i
	r.setData(len(b))
	return nil
}

// listLinux fills p with whole entries of Rreaddir. The offset of an entry is
// how many come before the next. There are no "." and "..", as in 9P2000:
// nobody needs them, and a client that walks to what it lists would find that
// "." is not a name.
func (r *request) listLinux(l *listing, p []byte) error {
	if !l.taken || r.m.Offset > uint64(len(l.entries)) {
		return errDirOffset
	}
	at, _ := r.place()
	ctx := r.looking()
	b := p[:0]
	i := int(r.m.Offset)
	for ; i < len(l.entries); i++ {
		entry := l.entries[i]
		info, err := entry.Stat(ctx)
		if err := ctx.Err(); err != nil {
			return err
		}
		if err != nil || !r.lists(info) {
			continue // removed since, or only to be walked to
		}
		q := r.conn.srv.qidOf(at, entry.Name, info)
		e := dirent{Qid: q, Offset: uint64(i + 1), Type: uint8(linuxMode(q.Type, 0) >> 12), Name: entry.Name}
		had := len(b)
		if b = appendDirent(b, &e); len(b) > len(p) {
			b = b[:had]
			break
		}
	}
	if len(b) == 0 && i < len(l.entries) {
		return errDirCount
	}
	r.setData(len(b))
	return nil
}
