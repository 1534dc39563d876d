package ninep

import (
	"context"
	"slices"
	"sync"

	"agent9/fsys"
)

// A chain is requests that are sent without waiting for each other: the first
// makes a fid, and those that follow are about it. A server that works in order
// answers them in one round trip. 9P does not promise that order: what comes to
// a fid that is not there yet is answered with BadHandle, and is asked again.
//
// Nothing of a chain may change anything, as it is sent before it is known
// what the fid is.
type chain struct {
	c     *Client
	fid   uint32
	calls []*clientCall
	reqs  []message

	mu      sync.Mutex
	open    int  // calls that are not answered
	made    bool // the fid
	dropped bool // by who began it: the last answer ends the fid
}

// begin sends first, which makes a fid, and what follows on it.
func (c *Client) begin(ctx context.Context, first message, rest ...message) (*chain, error) {
	ch := &chain{c: c, fid: c.calls.newFid()}
	first.NewFid = ch.fid
	reqs := append([]message{first}, rest...)
	for i := range reqs[1:] {
		reqs[1+i].Fid = ch.fid
	}
	if err := ch.send(ctx, reqs...); err != nil {
		c.calls.freeFid(ch.fid)
		return nil, err
	}
	return ch, nil
}

// send sends all of reqs, or none.
func (ch *chain) send(ctx context.Context, reqs ...message) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := ch.c.out.room(ctx, ch.c.done); err != nil {
		return err
	}
	err := ch.register(reqs)
	ch.c.out.flush()
	return err
}

// register puts reqs among what is to be sent.
func (ch *chain) register(reqs []message) error {
	c := ch.c
	calls := make([]*clientCall, len(reqs))
	for i, req := range reqs {
		calls[i] = &clientCall{typ: req.Type, names: len(req.Names), chain: ch, done: make(chan struct{}, 1)}
	}
	c.calls.mu.Lock()
	defer c.calls.mu.Unlock()
	for i, call := range calls {
		if err := c.calls.tagged(call); err != nil {
			for _, call := range calls[:i] {
				c.calls.forget(call)
			}
			return err
		}
	}
	for i, call := range calls {
		reqs[i].Tag = call.tag
		if err := c.out.add(c.dialect, &reqs[i]); err != nil { // only the first has a text that may be too long
			for _, call := range calls[i:] {
				c.calls.forget(call)
			}
			return err
		}
		ch.mu.Lock()
		ch.open++
		ch.mu.Unlock()
		ch.calls, ch.reqs = append(ch.calls, call), append(ch.reqs, reqs[i])
	}
	return nil
}

// wait returns the answer to the i-th request.
func (ch *chain) wait(ctx context.Context, i int) (*clientReply, error) {
	call := ch.calls[i]
	ch.calls[i] = nil
	select {
	case <-call.done:
	case <-ctx.Done():
		if ch.c.leave(call) {
			return nil, context.Cause(ctx)
		}
		<-call.done // it came meanwhile
	}
	r := call.reply
	ch.settle(call, r)
	if r == nil {
		return nil, ch.c.why()
	}
	if err := r.failure(call.typ); err != nil {
		r.free()
		return nil, err
	}
	return r, nil
}

// waitFor is wait for a request that follows the first, which was answered.
func (ch *chain) waitFor(ctx context.Context, i int) (*clientReply, error) {
	r, err := ch.wait(ctx, i)
	if fsys.CodeOf(err) != fsys.BadHandle || ctx.Err() != nil {
		return r, err
	}
	if err := ch.send(ctx, ch.reqs[i]); err != nil {
		return nil, err
	}
	return ch.wait(ctx, len(ch.calls)-1)
}

// settle records the answer r, or that there is none.
func (ch *chain) settle(call *clientCall, r *clientReply) {
	ch.mu.Lock()
	switch call.typ {
	case twalk:
		ch.made = r != nil && r.Type == rwalk && len(r.Qids) == call.names
	case txattrwalk:
		ch.made = r != nil && r.Type == rxattrwalk
	}
	ch.open--
	over := ch.dropped && ch.open == 0
	ch.mu.Unlock()
	if over {
		ch.end()
	}
}

// drop gives the chain up, and the fid with it when all answers are there.
// Requests that nobody has waited for are flushed if ctx has ended.
func (ch *chain) drop(ctx context.Context) {
	ch.mu.Lock()
	ch.open++ // this call itself
	ch.dropped = true
	ch.mu.Unlock()
	for _, call := range ch.calls {
		if call != nil && !(ctx.Err() != nil && ch.c.leave(call)) && !ch.c.disregard(call) {
			<-call.done
			ch.settle(call, call.reply)
			if call.reply != nil {
				call.reply.free()
			}
		}
	}
	ch.settle(&clientCall{}, nil)
}

func (ch *chain) end() {
	if ch.made {
		ch.c.clunk(ch.fid)
	} else {
		ch.c.calls.freeFid(ch.fid)
	}
}

// disregard leaves call to be settled when its answer comes. It reports false
// if that is there.
func (c *Client) disregard(call *clientCall) bool {
	t := &c.calls
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.calls[call.tag] != call {
		return false
	}
	call.left, call.done = true, nil
	return true
}

// walkThen walks names from n, and sends with it what is asked of what they
// lead to. The chain is the caller's to drop, or to take its fid; the walk was
// answered, and qids is what it found. There are up to 16 names.
func (n *Remote) walkThen(ctx context.Context, names []string, then ...message) (ch *chain, qids []qid, err error) {
	from, names, release, err := n.nearest(names)
	if err != nil {
		return nil, nil, err
	}
	defer release()
	if len(names) > maxNames {
		return nil, nil, errLongWalk
	}
	c := n.c
	ch, err = c.begin(ctx, message{Type: twalk, Fid: from, Names: names}, then...)
	if err != nil {
		return nil, nil, err
	}
	r, err := ch.wait(ctx, 0)
	if err == nil {
		qids = slices.Clone(r.Qids)
		r.free()
		if len(qids) < len(names) {
			err = c.stopped(ctx, from, names[:len(qids)+1], qids)
		}
	}
	if err != nil {
		ch.drop(ctx)
		return nil, nil, err
	}
	return ch, qids, nil
}

var errLongWalk = fsys.E(fsys.Unsupported, "more than 16 names to walk at once")

// nearest returns the fid of n, or of the nearest directory above it that
// keeps one, and the names that lead from there to where names lead from n.
func (n *Remote) nearest(names []string) (fid uint32, all []string, release func(), err error) {
	for at := n; ; at = at.parent {
		if fid, release, ok := at.kept(); ok {
			return fid, names, release, nil
		}
		if at.parent == nil {
			return 0, nil, nil, fsys.BadHandle
		}
		names = append([]string{at.name}, names...)
	}
}

// statRequest asks what c.info reads from the answer.
func (c *Client) statRequest(fid uint32) message {
	if c.dialect == linux {
		return message{Type: tgetattr, Fid: fid, Valid: getBasic | getGen | getVers}
	}
	return message{Type: tstat, Fid: fid}
}

func (c *Client) info(r *clientReply) fsys.Info {
	if c.dialect == linux {
		return infoOfAttr(r)
	}
	return infoOfDir(&r.Stat)
}

// FindInfo walks names from n and says what is there, in one round trip if it
// is up to 16 names from where n, or a directory above it, keeps a fid.
func (n *Remote) FindInfo(ctx context.Context, names []string) (fsys.Node, fsys.Info, error) {
	ch, qids, err := n.walkThen(ctx, names, n.c.statRequest(0))
	if err == errLongWalk {
		return n.findSlowly(ctx, names)
	}
	if err != nil {
		return nil, fsys.Info{}, err
	}
	r, err := ch.waitFor(ctx, 1)
	if err != nil {
		ch.drop(ctx)
		return nil, fsys.Info{}, err
	}
	info := n.c.info(r)
	r.free()
	for i, name := range names {
		n = n.child(name, kindOf(qids[len(qids)-len(names)+i].Type))
	}
	if len(names) == 0 || !n.adopt(ch.fid) {
		n.c.clunk(ch.fid)
	}
	return n, info, nil
}

func (n *Remote) findSlowly(ctx context.Context, names []string) (fsys.Node, fsys.Info, error) {
	found, err := n.descend(ctx, names)
	if err != nil {
		return nil, fsys.Info{}, err
	}
	info, err := found.Stat(ctx)
	return found, info, err
}

// OpenInfo walks names from n, which lead to a File, opens that for reading,
// says what it is, and reads up to ahead bytes of its beginning; all in one
// round trip, under the condition of FindInfo. What cannot be read ahead is
// left to be read.
func (n *Remote) OpenInfo(ctx context.Context, names []string, ahead int) (h fsys.Handle, info fsys.Info, first []byte, err error) {
	c := n.c
	mode, err := c.openMode(fsys.Read)
	if err != nil {
		return nil, info, nil, err
	}
	open := message{Type: topen, Mode: mode}
	if c.dialect == linux {
		open = message{Type: tlopen, Flags: mode}
	}
	then := []message{c.statRequest(0), open}
	if ahead = min(ahead, int(c.msize-ioHeader)); ahead > 0 {
		then = append(then, message{Type: tread, Count: uint32(ahead)})
	}
	ch, _, err := n.walkThen(ctx, names, then...)
	if err == errLongWalk {
		return n.openSlowly(ctx, names)
	}
	if err != nil {
		return nil, info, nil, err
	}
	defer func() {
		if err != nil {
			ch.drop(ctx)
		}
	}()
	r, err := ch.waitFor(ctx, 1)
	if err != nil {
		return nil, info, nil, err
	}
	info = c.info(r)
	r.free()
	if r, err = ch.waitFor(ctx, 2); err != nil {
		return nil, info, nil, err
	}
	opened := c.handle(ch.fid, fsys.Read, r)
	r.free()
	if ahead > 0 {
		r, rerr := ch.wait(ctx, 3)
		switch {
		case rerr == nil:
			first = slices.Clone(r.Data[:min(len(r.Data), ahead)])
			r.free()
		case ctx.Err() != nil:
			return nil, info, nil, rerr
		}
	}
	return opened, info, first, nil
}

func (n *Remote) openSlowly(ctx context.Context, names []string) (fsys.Handle, fsys.Info, []byte, error) {
	found, info, err := n.findSlowly(ctx, names)
	if err != nil {
		return nil, info, nil, err
	}
	h, err := found.Open(ctx, fsys.Read)
	return h, info, nil, err
}
