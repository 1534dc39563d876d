package web

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"agent9/fsys"
	"agent9/fsys/share"
)

// Bounds of one WebSocket.
const (
	maxFrame    = 2 << 20      // bytes that a client may send at once
	maxFiles    = 1024         // open at once
	maxUnderWay = 1024         // requests, also watches; beyond it nothing more is read
	maxHeld     = 2 * maxFrame // bytes of requests under way; beyond it nothing more is read
	maxRead     = 64 << 10
)

// upgrades reports whether the client wants a WebSocket.
func (s *Session) upgrades() bool { return s.R.Header.Get("Upgrade") != "" }

// socket speaks with the client about the files below the path until it
// goes.
func (s *Session) socket() error {
	root, err := s.Walk(s.R.Context(), s.Path...)
	if err != nil {
		return err
	}
	// The origin of the request was checked before.
	conn, err := websocket.Accept(s.out, s.R, &websocket.AcceptOptions{Subprotocols: []string{protocol}, InsecureSkipVerify: true})
	if err != nil {
		return nil // it has answered
	}
	s.out.status = http.StatusSwitchingProtocols
	conn.SetReadLimit(maxFrame)
	// The connection outlives what it is told to end with, to say so.
	life, hangUp := context.WithCancel(context.WithoutCancel(s.R.Context()))
	ctx, cancel := context.WithCancel(s.R.Context())
	k := &socket{s: s, conn: conn, life: life, root: root, files: map[int64]opened{}, running: map[int64]*running{}, room: make(chan struct{}, maxUnderWay), held: newCredit(maxHeld)}
	var watching sync.WaitGroup
	watching.Go(func() {
		k.keepAlive(ctx)
		cancel()
	})
	watching.Go(func() {
		<-ctx.Done()
		status, reason := websocket.StatusNormalClosure, ""
		if cause := context.Cause(s.R.Context()); cause != nil {
			status, reason = websocket.StatusGoingAway, fsys.ReasonOf(cause)
		}
		conn.Close(status, reason)
	})
	k.serve(ctx)
	cancel()
	k.work.Wait()
	watching.Wait()
	hangUp()
	for _, f := range k.files {
		f.handle.Close() // as for who hangs up
	}
	return nil
}

// A socket is a conversation.
type socket struct {
	s    *Session
	conn *websocket.Conn
	life context.Context // of the connection
	root fsys.Node
	work sync.WaitGroup
	room chan struct{}
	held *credit

	writing sync.Mutex

	mu      sync.Mutex
	files   map[int64]opened
	running map[int64]*running // by id
}

// opened is a file that is open.
type opened struct {
	node   fsys.Node
	handle fsys.Handle
	kind   fsys.Kind
	bytes  *atomic.Int64 // taken for it
}

// About what a file that is open takes, and a request under way, besides what
// they carry.
const (
	fileBytes = 1 << 10
	askBytes  = 8 << 10
)

// count takes account of what o keeps now.
func (k *socket) count(o opened) {
	now := fileBytes + fsys.Held(o.handle)
	k.s.Part.Charge(share.Files, now-o.bytes.Swap(now))
}

// forget gives back what was taken for o.
func (k *socket) forget(o opened) {
	k.s.Part.Fids.Add(-1)
	k.s.Part.Give(share.Files, o.bytes.Load())
}

// running is a request under way.
type running struct {
	cancel context.CancelFunc
	credit *credit // of a watch
}

// serve reads requests until the client has gone or ctx has ended.
func (k *socket) serve(ctx context.Context) {
	hello := time.AfterFunc(k.s.server.HelloTimeout, func() { k.conn.CloseNow() })
	defer hello.Stop()
	for {
		kind, text, err := k.next(hello)
		if err != nil {
			return
		}
		var f Frame
		d := json.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields()
		if err := d.Decode(&f); err != nil || kind != websocket.MessageText {
			k.s.Part.Give(share.Data, int64(cap(text)))
			k.answer(Frame{ID: f.ID}, fsys.E(fsys.Invalid, "the message is not a JSON frame"))
			continue
		}
		if f.Op == "cancel" || f.Op == "credit" {
			k.s.Part.Give(share.Data, int64(cap(text)))
			k.control(f)
			continue
		}
		size := int64(cap(text))
		if k.held.take(ctx, size) != nil {
			return
		}
		select {
		case k.room <- struct{}{}:
			k.start(ctx, f, size)
		case <-ctx.Done():
			return
		}
	}
}

// next returns the next frame, whose capacity is taken of the part. Once it has
// begun it comes as fast as a body must, and the first one soon after the
// upgrade, or the connection ends.
func (k *socket) next(hello *time.Timer) (kind websocket.MessageType, text []byte, err error) {
	kind, r, err := k.conn.Reader(k.life)
	if err != nil {
		return kind, nil, err
	}
	hello.Stop()
	server, began := k.s.server, time.Now()
	late := time.AfterFunc(server.ReadTimeout, func() { k.conn.CloseNow() })
	defer late.Stop()
	for {
		if len(text) == cap(text) {
			if text, err = k.s.Grow(text); err != nil {
				k.conn.Close(websocket.StatusTryAgainLater, fsys.ReasonOf(err))
				break
			}
		}
		var n int
		n, err = r.Read(text[len(text):cap(text)])
		text = text[:len(text)+n]
		if err != nil {
			break
		}
		late.Reset(time.Until(server.patience(began, len(text))))
	}
	if err == io.EOF {
		return kind, text, nil
	}
	k.s.Part.Give(share.Data, int64(cap(text)))
	return kind, nil, err
}

// control serves what is about another request. Only a mistake is
// answered.
func (k *socket) control(f Frame) {
	k.mu.Lock()
	r := k.running[f.Of]
	k.mu.Unlock()
	switch {
	case r == nil: // it has ended
	case f.Op == "cancel":
		r.cancel()
	case r.credit == nil || f.Credit <= 0:
		k.answer(Frame{ID: f.ID}, fsys.E(fsys.Invalid, "credit must be a number of bytes for a watch"))
	default:
		r.credit.give(f.Credit)
	}
}

// start performs f, which is so long, in a goroutine of its own.
func (k *socket) start(ctx context.Context, f Frame, size int64) {
	ctx, cancel := context.WithCancel(ctx)
	r := &running{cancel: cancel}
	if f.Op == "watch" {
		r.credit = newCredit(max(f.Credit, 0))
	}
	k.mu.Lock()
	taken := k.running[f.ID] != nil
	if !taken {
		k.running[f.ID] = r
	}
	k.mu.Unlock()
	part := k.s.Part
	release := func() {
		cancel()
		<-k.room
		k.held.give(size)
		part.Give(share.Data, size)
	}
	if taken {
		release()
		k.answer(Frame{ID: f.ID}, fsys.E(fsys.Invalid, "a request with this id is in progress"))
		return
	}
	k.work.Go(func() {
		var reply Frame
		cost := f.cost() + size // which is there again as a Frame
		var err error
		if f.Op == "close" || f.Op == "drop" {
			part.Charge(share.Requests, cost) // what gives something back is never refused
		} else {
			err = part.Wait(ctx, share.Requests, cost)
		}
		part.Requests.Add(1)
		if err == nil {
			defer part.Give(share.Requests, cost)
			reply, err = k.perform(ctx, f, r)
		}
		part.Requests.Add(-1)
		k.mu.Lock()
		delete(k.running, f.ID)
		k.mu.Unlock()
		release()
		reply.ID = f.ID
		k.answer(reply, err)
		part.Give(share.Data, reply.bytes)
	})
}

// answer sends f, or why there is no answer.
func (k *socket) answer(f Frame, err error) {
	if k.s.over() && f.tells() {
		err = errRevoked
	}
	if err != nil {
		f = Frame{ID: f.ID, Error: &FrameError{fsys.CodeOf(err).String(), fsys.ReasonOf(err)}}
	}
	k.write(f)
}

// write sends f in the time that a client has to take it.
func (k *socket) write(f Frame) error {
	k.writing.Lock()
	defer k.writing.Unlock()
	ctx, cancel := context.WithTimeout(k.life, k.s.server.WriteTimeout)
	defer cancel()
	return k.conn.Write(ctx, websocket.MessageText, fsys.Line(f))
}

// keepAlive returns when the client has gone without a word, or for so long
// leaves requests under way that nothing more of it is read.
func (k *socket) keepAlive(ctx context.Context) {
	tick := time.NewTicker(k.s.server.Heartbeat)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		ping, cancel := context.WithTimeout(ctx, k.s.server.WriteTimeout)
		err := k.conn.Ping(ping)
		cancel()
		if err != nil {
			k.conn.CloseNow()
			return
		}
	}
}

func (k *socket) perform(ctx context.Context, f Frame, r *running) (Frame, error) {
	if k.s.over() {
		return Frame{}, errRevoked
	}
	switch f.Op {
	case "open", "stat", "list", "truncate", "remove", "setattr", "mkdir", "rename":
		done, err := k.s.Part.Make(ctx) // what is a text is made for these
		if err != nil {
			return Frame{}, err
		}
		defer done()
	}
	switch f.Op {
	case "open":
		return k.open(ctx, f)
	case "read", "write", "sync", "close", "drop", "watch":
		return k.useFile(ctx, f, r)
	case "stat", "list", "truncate", "remove", "setattr":
		return k.usePath(ctx, f)
	case "mkdir", "rename":
		return k.useParent(ctx, f)
	}
	return Frame{}, fsys.E(fsys.Invalid, "unknown op "+shortened(f.Op))
}

func (k *socket) walk(ctx context.Context, names []string) (n fsys.Node, err error) {
	n = k.root
	for _, name := range names {
		if n, err = fsys.Walk(ctx, n, name); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// parent returns the directory of Path, and the name in it.
func (k *socket) parent(ctx context.Context, f Frame) (dir fsys.Node, name string, err error) {
	names, err := f.names()
	if err != nil {
		return nil, "", err
	}
	if len(names) == 0 {
		return nil, "", fsys.E(fsys.Permission, "the root cannot be created or renamed")
	}
	last := len(names) - 1
	dir, err = k.walk(ctx, names[:last])
	return dir, names[last], err
}

func (k *socket) open(ctx context.Context, f Frame) (Frame, error) {
	flag, create, err := f.flags()
	if err != nil {
		return Frame{}, err
	}
	var node fsys.Node
	var h fsys.Handle
	if node, h, err = k.openFile(ctx, f, flag, create); err != nil {
		return Frame{}, err
	}
	info, err := node.Stat(ctx)
	if err == nil {
		err = k.keep(f.ID, node, h, info.Kind)
	}
	if err != nil {
		h.Close()
		return Frame{}, err
	}
	described := frameInfo("", info)
	return Frame{Info: &described}, nil
}

func (k *socket) openFile(ctx context.Context, f Frame, flag fsys.Flag, create bool) (fsys.Node, fsys.Handle, error) {
	if !create {
		node, err := k.node(ctx, Frame{Path: f.Path})
		if err != nil {
			return nil, nil, err
		}
		h, err := node.Open(ctx, flag)
		return node, h, err
	}
	dir, name, err := k.parent(ctx, f)
	if err != nil {
		return nil, nil, err
	}
	if flag&fsys.Excl != 0 {
		return fsys.Create(ctx, dir, name, f.perm(0o644), flag)
	}
	return fsys.OpenCreate(ctx, dir, name, f.perm(0o644), flag)
}

// keep makes id the number of an open file.
func (k *socket) keep(id int64, n fsys.Node, h fsys.Handle, kind fsys.Kind) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch _, taken := k.files[id]; {
	case taken:
		return fsys.E(fsys.Invalid, "this file number is in use")
	case len(k.files) >= maxFiles:
		return fsys.E(fsys.Busy, "too many files are open; close some")
	}
	o := opened{n, h, kind, new(atomic.Int64)}
	o.bytes.Store(fileBytes + fsys.Held(h))
	if !k.s.Part.Reserve(share.Files, o.bytes.Load()) {
		return share.ErrFull
	}
	k.s.Part.Fids.Add(1)
	k.files[id] = o
	return nil
}

// file returns the open file that f names; with forget its number is free.
func (k *socket) file(f Frame, forget bool) (opened, error) {
	if f.File == nil {
		return opened{}, fsys.E(fsys.Invalid, f.Op+" needs a file")
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	o, ok := k.files[*f.File]
	if !ok {
		return o, fsys.E(fsys.BadHandle, "no file with this number is open")
	}
	if forget {
		delete(k.files, *f.File)
	}
	return o, nil
}

func (k *socket) useFile(ctx context.Context, f Frame, r *running) (Frame, error) {
	o, err := k.file(f, f.Op == "close" || f.Op == "drop")
	if err != nil {
		return Frame{}, err
	}
	h := o.handle
	switch f.Op {
	case "close":
		defer k.forget(o)
		return Frame{}, fsys.Finish(ctx, h)
	case "drop":
		defer k.forget(o)
		return Frame{}, h.Close()
	case "sync":
		return Frame{}, fsys.Sync(ctx, h)
	case "watch":
		return k.watch(ctx, f, h, r.credit)
	case "write":
		p, err := f.payload()
		if err != nil {
			return Frame{}, err
		}
		done, err := k.s.Part.More(ctx, o.kind, h, len(p))
		if err != nil {
			return Frame{}, err
		}
		defer done()
		n, err := fsys.WriteAt(ctx, h, p, f.Offset)
		k.count(o)
		return Frame{Count: int64(n)}, err
	}
	done, err := k.s.Part.More(ctx, o.kind, h, 0)
	if err != nil {
		return Frame{}, err
	}
	defer done()
	defer k.count(o)
	f.Count = f.count()
	p := make([]byte, min(f.Count, 4<<10))
	n, err := fsys.ReadAt(ctx, h, p, f.Offset)
	if n == len(p) && f.Count > int64(n) {
		more := make([]byte, f.Count)
		m, _ := fsys.ReadAt(fsys.AtOnce(ctx), h, more[copy(more, p):], f.Offset+int64(n))
		p, n = more, n+m
	}
	return readReply(p[:n], f.Offset, err)
}

func readReply(p []byte, off int64, err error) (Frame, error) {
	f := Frame{Offset: off, EOF: len(p) == 0}
	if len(p) == 0 && err != nil && !fsys.IsEOF(err) {
		return Frame{}, err
	}
	f.carry(p)
	return f, nil
}

// watch sends what comes, as far as the credit goes; the answer is the end.
func (k *socket) watch(ctx context.Context, f Frame, h fsys.Handle, credit *credit) (Frame, error) {
	buf := make([]byte, eventRoom)
	for off := f.Offset; ; {
		room, err := credit.some(ctx, eventRoom)
		if err != nil {
			return Frame{}, err
		}
		n, err := fsys.ReadAt(ctx, h, buf[:room], off)
		credit.give(room - int64(n))
		reply, err := readReply(buf[:n], off, err)
		if err != nil || reply.EOF {
			return reply, err
		}
		if k.s.over() {
			return Frame{}, errRevoked
		}
		reply.ID = f.ID
		if err := k.write(reply); err != nil {
			return Frame{}, err
		}
		off += int64(n)
	}
}

// node returns what Path leads to, or the open file that f names.
func (k *socket) node(ctx context.Context, f Frame) (fsys.Node, error) {
	if f.File != nil {
		o, err := k.file(f, false)
		return o.node, err
	}
	names, err := f.names()
	if err != nil {
		return nil, err
	}
	return k.walk(ctx, names)
}

func (k *socket) usePath(ctx context.Context, f Frame) (Frame, error) {
	node, err := k.node(ctx, f)
	if err != nil {
		return Frame{}, err
	}
	switch f.Op {
	case "stat":
		info, err := node.Stat(ctx)
		described := frameInfo("", info)
		return Frame{Info: &described}, err
	case "truncate":
		return Frame{}, fsys.Truncate(ctx, node, f.Size)
	case "remove":
		return Frame{}, fsys.Remove(ctx, node)
	case "setattr":
		var set fsys.Attr
		if f.Perm != nil {
			perm := f.perm(0)
			set.Perm = &perm
		}
		if f.MTime != "" {
			at, err := time.Parse(time.RFC3339Nano, f.MTime)
			if err != nil {
				return Frame{}, fsys.E(fsys.Invalid, "mtime must be a time such as 2030-01-31T12:00:00Z")
			}
			set.ModTime = &at
		}
		return Frame{}, fsys.SetAttr(ctx, node, set)
	}
	list, err := fsys.List(ctx, node)
	if err != nil {
		return Frame{}, err
	}
	took := share.List(list) + int64(len(list))*lineBytes
	if err := k.s.Part.Wait(ctx, share.Data, took); err != nil {
		return Frame{}, err
	}
	reply := Frame{bytes: took, Entries: make([]FrameInfo, 0, len(list))}
	for _, e := range list {
		info, err := e.Node.Stat(ctx)
		switch {
		case fsys.CodeOf(err) == fsys.NotExist && err != nil:
		case err != nil:
			reply.Entries = append(reply.Entries, FrameInfo{Name: e.Name, Kind: fsys.File.String()})
		default:
			reply.Entries = append(reply.Entries, frameInfo(e.Name, info))
		}
	}
	return reply, nil
}

func (k *socket) useParent(ctx context.Context, f Frame) (Frame, error) {
	dir, name, err := k.parent(ctx, f)
	if err != nil {
		return Frame{}, err
	}
	if f.Op == "rename" {
		return Frame{}, fsys.Rename(ctx, dir, name, f.To)
	}
	node, err := fsys.Mkdir(ctx, dir, name, f.perm(0o755))
	if err != nil {
		return Frame{}, err
	}
	info, err := node.Stat(ctx)
	described := frameInfo("", info)
	return Frame{Info: &described}, err
}
