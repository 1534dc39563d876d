package ninep

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"agent9/fsys"
	"agent9/fsys/share"
)

// attachBytes is about what an attach takes but for its name: its contexts, what
// Server.Attach keeps for it, and a goroutine that waits for the grant to end.
const attachBytes = 6 << 10

// An attach is a tree that a client has been granted, for as long as it has a
// fid in it.
type attach struct {
	options options
	uid     uint32 // shown as the owner of every file: the client's own
	name    string // the same for 9P2000
	ctx     context.Context
	cancel  context.CancelCauseFunc
	fids    atomic.Int32    // also those that are being made
	bytes   int64           // taken for it
	done    <-chan struct{} // of the grant; nil if that has no end

	contexts sync.Pool // of *opContext
}

// errRevoked answers what comes after the end of a grant.
var errRevoked = fsys.E(fsys.Permission, "the grant was revoked or has expired")

// options are what may follow the path in an aname.
type options struct {
	wait   time.Duration // the longest a read blocks before it reports the end; 0 is for ever
	errors errorStyle
	reader streamReader
	all    bool // listings have every name, not only those that are safe to read
}

// noWait is the wait of wait=0s: a Stream has what there is now, and a Message
// so long for a reply.
const noWait = 50*time.Millisecond + 1

// A streamReader says what kind of client reads Streams: see continuation.
type streamReader uint8

const (
	anyReader   streamReader = iota // v9fs if it speaks 9P2000.L, else a library
	plainReader                     // a library
	v9fsReader                      // v9fs, also in 9P2000
)

// parseAname cuts the options off an aname such as "/agents/alice?wait=5s".
func parseAname(aname string) (path string, o options, err error) {
	path, query, _ := strings.Cut(aname, "?")
	for option := range strings.SplitSeq(query, "&") {
		if option == "" {
			continue
		}
		key, value, _ := strings.Cut(option, "=")
		ok := true
		switch key {
		case "wait":
			o.wait, err = time.ParseDuration(value)
			ok = err == nil && o.wait >= 0
			if o.wait == 0 {
				o.wait = noWait
			}
		case "errors":
			o.errors, ok = map[string]errorStyle{"auto": autoErrors, "exact": exactErrors, "full": fullErrors}[value]
		case "stream":
			o.reader, ok = map[string]streamReader{"plain": plainReader, "v9fs": v9fsReader}[value]
		case "list":
			o.all, ok = map[string]bool{"safe": false, "all": true}[value]
		default:
			return "", o, fsys.E(fsys.Invalid, "an aname has no option "+key+"; its options are: wait, errors, stream, list")
		}
		if !ok {
			return "", o, fsys.E(fsys.Invalid, "the aname has an invalid option "+option+"; valid are: wait=TIME with its unit, such as 5s; errors=auto, exact or full; stream=plain or v9fs; list=safe or all")
		}
	}
	return path, o, nil
}

func (r *request) attach() error {
	c, s, m := r.conn, r.s, &r.m
	path, opts, err := parseAname(m.Aname)
	if err != nil {
		return err
	}
	a := &attach{options: opts, uid: m.NUname, name: m.Uname, bytes: attachBytes + int64(len(m.Uname))}
	if a.uid == noUID {
		a.uid = uint32(max(c.peer.UID, 0))
	}
	life, cancel := context.WithCancelCause(s.ctx)
	a.cancel = cancel
	peer := c.peer
	peer.Life = life
	c.asked(true)
	grant, err := c.srv.Attach(r.ctx, peer, m.Uname, path)
	if err == nil {
		err = c.join(grant.by())
	}
	c.asked(false)
	if err != nil {
		a.cancel(err)
		return err
	}
	a.ctx, a.done = fsys.WithCredential(life, grant.Caller, grant.by()), grant.Done
	// The root's path tells trees apart, also those that different callers
	// are shown under one name.
	root := &place{qid: qid{Path: c.srv.paths.path(0, 0, string(grant.Caller))}}
	if root, err = c.srv.placeAt(a.ctx, root, path, grant.Root); err != nil {
		a.cancel(err)
		return err
	}
	root.up, root.name, root.root = nil, "/", grant.ID
	if !c.data.Reserve(share.Fids, a.bytes) {
		a.cancel(share.ErrFull)
		return share.ErrFull
	}
	err = s.commit(r, func() error {
		f := r.reserved
		if err := s.goTo(f, root, 0); err != nil {
			return err
		}
		f.att, f.state = a, fidWalked
		a.fids.Add(1)
		return nil
	})
	if err != nil {
		c.data.Give(share.Fids, a.bytes)
		a.cancel(err)
		return err
	}
	if grant.Done != nil {
		c.workers.Go(func() { s.watch(a) })
	}
	m.Qid = root.qid
	return nil
}

// over reports whether the grant of a has ended. Whoever ended it may rely on
// that at once, and need not wait until what is under way has been cancelled.
func (a *attach) over() bool {
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}

// watch cancels what is under way in a when its grant ends. It ends with a.
func (s *session) watch(a *attach) {
	select {
	case <-a.done:
	case <-a.ctx.Done():
		return
	}
	s.mu.Lock()
	a.cancel(errRevoked)
	for _, r := range s.tags {
		if r.att == a {
			r.cancel()
		}
	}
	s.mu.Unlock()
	s.unlock(a)
}

// unuse says that a fid of a is gone.
func (a *attach) unuse(c *conn) {
	if a.fids.Add(-1) == 0 {
		c.data.Give(share.Fids, a.bytes)
		a.cancel(nil)
	}
}

// newContext returns a context for r. A context is used again only after a
// read or a look at something that is not a Message: everything else may keep
// it, to act later in the name of the attached client.
func (a *attach) newContext(r *request) *opContext {
	switch r.m.Type {
	case tread, treaddir, tstat, tgetattr, tstatfs:
		r.pooled = r.fid.at.qid.Type&qtTmp == 0
	}
	if r.pooled {
		if c, ok := a.contexts.Get().(*opContext); ok {
			return c
		}
	}
	ctx := a.ctx
	if t := r.conn.srv.Trace; t != nil && r.mayAct() {
		ctx, r.spanEnd = t(ctx, ctx, "9P "+r.op.String(), "file", r.fid.at.name)
	}
	return &opContext{Context: ctx}
}

// mayAct reports whether r can be what ends a request to a Message file.
func (r *request) mayAct() bool {
	switch r.m.Type {
	case twrite, tclunk, tfsync:
		return r.fid.at.qid.Type&qtTmp != 0
	}
	return false
}
