package ninep

import (
	"context"
	"io/fs"
	"time"

	"agent9/fsys"
	"agent9/fsys/share"
)

// listAttr is the extended attribute of a directory whose value is the
// directory with what its entries are: what Treaddir and a Tgetattr of each
// would say. Txattrwalk makes a fid of the value; nobody else asks by this
// name, and a list of attributes does not have it.
const listAttr = "agent9.list"

// A listed entry is one of the value of listAttr. The order is that of fields.
type listed struct {
	Qid        qid
	Perm       uint32
	Size       uint64
	Sec        uint64 // of the time of the last change
	Nsec       uint32
	Generation uint64
	Name       string
}

func (e *listed) fields(c *coder) {
	c.qid(&e.Qid)
	c.u32(&e.Perm)
	c.u64(&e.Size)
	c.u64(&e.Sec)
	c.u32(&e.Nsec)
	c.u64(&e.Generation)
	c.str(&e.Name)
}

func (e *listed) info() fsys.Info {
	info := fsys.Info{
		Kind:    kindOf(e.Qid.Type),
		Perm:    fs.FileMode(e.Perm).Perm(),
		ModTime: time.Unix(int64(e.Sec), int64(e.Nsec)),
		Version: e.Qid.Version,
		Gen:     e.Generation,
	}
	return sized(info, e.Size)
}

// listedWalk serves Txattrwalk of listAttr. A client that may not read the directory is
// refused as by Tlopen.
func (r *request) listedWalk() error {
	at, kind := r.place()
	if kind != fsys.Directory {
		return errNoAttr
	}
	h, err := at.node.Open(r.ctx, fsys.Read)
	if err != nil {
		return err
	}
	defer h.Close()
	entries, err := fsys.List(r.looking(), at.node)
	if err != nil {
		return err
	}
	value, err := r.listed(at, entries)
	if err != nil {
		return err
	}
	held := int64(len(value))
	if !r.conn.data.Reserve(share.Files, held) {
		return share.ErrFull
	}
	r.m.Size = uint64(held)
	err = r.s.commit(r, func() error {
		n := r.reserved
		if err := r.s.goTo(n, at, 0); err != nil {
			return err
		}
		n.state = fidOpen
		n.handle, n.flag = value, fsys.Read
		n.bytes += held
		return nil
	})
	if err != nil {
		r.conn.data.Give(share.Files, held)
	}
	return err
}

func (r *request) listed(at *place, entries []fsys.Entry) (listedValue, error) {
	srv := r.conn.srv
	ctx := r.looking()
	c := coder{encoding: true}
	for _, e := range entries {
		info, err := e.Stat(ctx)
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err != nil || !r.lists(info) {
			continue // removed since, or only to be walked to
		}
		t := srv.timeOf(info)
		l := listed{
			Qid: srv.qidOf(at, e.Name, info), Perm: uint32(info.Perm.Perm()), Size: uint64(info.Size),
			Sec: uint64(t.Unix()), Nsec: uint32(t.Nanosecond()), Generation: info.Gen, Name: e.Name,
		}
		l.fields(&c)
	}
	return listedValue(c.b), c.err
}

// A listedValue is the open value of listAttr.
type listedValue []byte

func (listedValue) Close() error { return nil }

func (v listedValue) Held() int64 { return int64(len(v)) }

func (v listedValue) ReadAt(_ context.Context, p []byte, off int64) (int, error) {
	if off >= int64(len(v)) {
		return 0, nil
	}
	return copy(p, v[off:]), nil
}

// ListInfo is List with an Info in every entry, where the server has that in
// one go, as ours does in 9P2000.L; else it is List. A listing that fits into a
// message takes one round trip.
func (n *Remote) ListInfo(ctx context.Context) ([]fsys.Entry, error) {
	if n.kind != fsys.Directory {
		return nil, fsys.NotDir
	}
	if n.c.dialect != linux {
		return n.List(ctx)
	}
	value, err := n.value(ctx, listAttr)
	if err == errNoValue {
		return n.List(ctx)
	}
	if err != nil {
		return nil, err
	}
	var entries []fsys.Entry
	for c := (coder{b: value}); len(c.b) > 0; {
		var e listed
		if e.fields(&c); c.err != nil {
			return nil, fsys.Wrap(fsys.Unavailable, "a directory entry", c.err)
		}
		if fsys.CheckName(e.Name) != nil {
			continue
		}
		info := e.info()
		entries = append(entries, fsys.Entry{Name: e.Name, Node: n.child(e.Name, info.Kind), Info: &info})
	}
	return entries, nil
}

// maxValue is how large an extended attribute may be that is taken: a
// directory of 100,000 names of middle length has 8 MiB.
const maxValue = 64 << 20

var errNoValue = fsys.E(fsys.Unsupported, "there is no such extended attribute")

// value returns the extended attribute of n that is called name. A server may
// say in several ways that there is none.
func (n *Remote) value(ctx context.Context, name string) ([]byte, error) {
	c := n.c
	fid, release, err := n.hold(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	most := c.msize - ioHeader
	ch, err := c.begin(ctx, message{Type: txattrwalk, Fid: fid, Name: name}, message{Type: tread, Count: most})
	if err != nil {
		return nil, err
	}
	defer ch.drop(ctx)
	r, err := ch.wait(ctx, 0)
	if err != nil {
		switch fsys.CodeOf(err) {
		case fsys.Unsupported, fsys.Internal, fsys.Invalid, fsys.Busy:
			return nil, errNoValue
		}
		return nil, err
	}
	size := r.Size
	r.free()
	if size > maxValue {
		return nil, errNoValue
	}
	var value []byte
	for i := 1; ; i++ {
		r, err := ch.waitFor(ctx, i)
		if err != nil {
			return nil, err
		}
		got := len(r.Data)
		value = append(value, r.Data...)
		r.free()
		switch {
		case uint64(len(value)) == size:
			return value, nil
		case got == 0 || uint64(len(value)) > size:
			return nil, fsys.E(fsys.Unavailable, "an extended attribute is not as long as the server said")
		}
		i = len(ch.calls) - 1
		if err := ch.send(ctx, message{Type: tread, Fid: ch.fid, Offset: uint64(len(value)), Count: most}); err != nil {
			return nil, err
		}
	}
}
