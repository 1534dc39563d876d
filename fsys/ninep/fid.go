package ninep

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"slices"
	"time"

	"agent9/fsys"
	"agent9/fsys/share"
)

// A fid is a client's number for a file. The session's mu guards it.
type fid struct {
	num   uint32
	att   *attach
	at    *place
	state fidState
	gone  bool  // clunked, or the session has ended
	bytes int64 // taken for what its handle and its list keep

	// Since it was opened:
	handle fsys.Handle
	flag   fsys.Flag
	kind   fsys.Kind
	remove bool          // when it is clunked (ORCLOSE)
	ops    []*request    // that use handle; it is not closed before they end
	owned  bool          // a clunk will close handle, else the last of ops does
	idle   chan struct{} // closed when the last of ops ends, for a clunk that waits
	tail   continuation
	list   listing
	locks  fsys.ID // that it may hold locks on; zero is none
}

// About what a fid takes, and a place but for its name.
const (
	fidBytes   = 512
	placeBytes = 320
)

type fidState uint8

const (
	fidReserved fidState = iota // the request that makes it is under way
	fidWalked
	fidBusy // being opened
	fidOpen
)

// A place is a file and the way to it from the root of an attach. It does not
// change, but for its uses, which the session's mu guards.
type place struct {
	uses int    // by fids that are there, and places right below
	up   *place // nil at the root
	name string
	node fsys.Node
	qid  qid
	gen  uint64
	root fsys.ID // of a root that does not know which file it is
}

// A pathKey makes qid paths. It is new for each start of the server, so that
// a path tells nothing and is not remembered longer than the file is.
type pathKey struct{ cipher.Block }

func newPathKey() pathKey {
	key := make([]byte, aes.BlockSize)
	rand.Read(key)
	b, err := aes.NewCipher(key)
	if err != nil {
		panic(err) // of the length of the key
	}
	return pathKey{b}
}

// path returns the qid path of the file that bears name, for the gen-th time,
// in the directory whose path is dir: 56 bits of the CBC-MAC of all three,
// which begins with how long they are. A listing needs one for each name, and
// a processor does AES ten times as fast as SHA-256.
func (k pathKey) path(dir, gen uint64, name string) uint64 {
	b := make([]byte, aes.BlockSize)
	binary.LittleEndian.PutUint64(b, uint64(len(name)))
	binary.LittleEndian.PutUint64(b[8:], dir)
	k.Encrypt(b, b)
	binary.LittleEndian.PutUint64(b, binary.LittleEndian.Uint64(b)^gen)
	k.Encrypt(b, b)
	for len(name) > 0 {
		n := min(len(name), len(b))
		for i := range n {
			b[i] ^= name[i]
		}
		k.Encrypt(b, b)
		name = name[n:]
	}
	return binary.LittleEndian.Uint64(b) >> 8
}

// placeAt returns the place of the file that bears name in up.
func (s *Server) placeAt(ctx context.Context, up *place, name string, n fsys.Node) (*place, error) {
	info, err := n.Stat(ctx)
	if err != nil {
		return nil, err
	}
	return &place{up: up, name: name, node: n, qid: s.qidOf(up, name, info), gen: info.Gen}, nil
}

func (s *Server) qidOf(up *place, name string, info fsys.Info) qid {
	return qid{qidType(info.Kind), info.Version, s.paths.path(up.qid.Path, info.Gen, name)}
}

// qidNow is the qid of a place whose Info has been asked for again.
func (s *Server) qidNow(p *place, info fsys.Info) qid {
	if info.Gen != p.gen && p.up != nil {
		return s.qidOf(p.up, p.name, info)
	}
	return qid{qidType(info.Kind), info.Version, p.qid.Path}
}

// goTo has f at p from now on, if there is room for the way there besides what
// was paid for it before. mu is held.
func (s *session) goTo(f *fid, p *place, paid int64) error {
	more := -paid
	for q := p; q != nil && q.uses == 0; q = q.up {
		more += placeCost(q.name)
	}
	if more > 0 && !s.conn.data.Reserve(share.Fids, more) {
		return share.ErrFull
	}
	s.conn.data.Give(share.Fids, max(0, -more))
	for q := p; q != nil; q = q.up {
		if q.uses++; q.uses > 1 {
			break
		}
	}
	s.conn.unuse(f.at)
	f.at = p
	return nil
}

// placeCost is about what a place takes.
func placeCost(name string) int64 { return placeBytes + int64(len(name)) }

func (c *conn) unuse(p *place) {
	for ; p != nil; p = p.up {
		if p.uses--; p.uses > 0 {
			return
		}
		c.data.Give(share.Fids, placeCost(p.name))
	}
}

// unfid gives back what was taken for f, which is no fid any more. The session's
// mu is held.
func (c *conn) unfid(f *fid) {
	c.data.Give(share.Fids, fidBytes)
	c.data.Give(share.Files, f.bytes)
	f.bytes = 0
	c.unuse(f.at)
	c.data.Fids.Add(-1)
	if f.att != nil {
		f.att.unuse(c)
	}
}

// forget frees the number of f for another use, and ends what waits on it.
func (s *session) forget(f *fid) {
	delete(s.fids, f.num)
	f.gone, f.owned = true, true
	for _, op := range f.ops {
		switch op.op {
		case tread, treaddir, tlock:
			op.cancel()
		}
	}
}

// release undoes what r held on fids. It returns a fid that r was the last to
// use and whose handle nobody else will close.
func (s *session) release(r *request) (unused *fid) {
	if n := r.reserved; n != nil && !r.committed {
		if s.fids[n.num] == n {
			delete(s.fids, n.num)
		}
		s.conn.unfid(n)
	}
	f := r.fid
	if f == nil {
		return nil
	}
	if r.opening && f.state == fidBusy {
		f.state = fidWalked
	}
	if !r.using {
		return nil
	}
	i := slices.Index(f.ops, r)
	f.ops = slices.Delete(f.ops, i, i+1)
	switch {
	case len(f.ops) > 0 || !f.gone:
		return nil
	case !f.owned:
		return f
	case f.idle != nil:
		close(f.idle)
		f.idle = nil
	}
	return nil
}

// discard closes what f has open, without Sync: its client has gone away or
// did not wait.
func (s *session) discard(f *fid) {
	ctx := s.ctx
	if f.remove {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(f.att.ctx), time.Second)
		defer cancel()
	}
	s.close(ctx, f, false)
}

// close ends f, which is gone and whose handle nobody uses. After the end of
// its grant it only frees: nothing that was gathered acts, and nothing is
// removed.
func (s *session) close(ctx context.Context, f *fid, inOrder bool) (err error) {
	if f.handle != nil {
		over := f.att.over()
		s.mu.Lock()
		node := f.at.node
		s.mu.Unlock()
		if inOrder && !over {
			err = fsys.Sync(ctx, f.handle)
		}
		if cerr := f.handle.Close(); err == nil {
			err = cerr
		}
		switch {
		case f.remove && over:
			err = errRevoked
		case f.remove:
			if rerr := fsys.Remove(ctx, node); err == nil {
				err = rerr
			}
		}
		if f.locks != (fsys.ID{}) {
			s.conn.srv.Locks.Release(f.locks, f)
		}
	}
	s.mu.Lock()
	s.conn.unfid(f)
	s.mu.Unlock()
	return err
}

// charge takes account of what f's handle keeps now.
func (s *session) charge(f *fid) {
	held := fsys.Held(f.handle)
	s.mu.Lock()
	defer s.mu.Unlock()
	held += f.list.bytes
	s.conn.data.Charge(share.Files, held-f.bytes)
	f.bytes = held
}
