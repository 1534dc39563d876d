package ninep

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"agent9/fsys"
)

// A whim is bytes that say what a client does. It never ends: behind its
// last byte there are zeroes.
type whim struct{ b []byte }

func (s *whim) byte() byte {
	if len(s.b) == 0 {
		return 0
	}
	c := s.b[0]
	s.b = s.b[1:]
	return c
}

func pick[T any](s *whim, list ...T) T { return list[int(s.byte())%len(list)] }

func (s *whim) fid() uint32 { return pick[uint32](s, 0, 1, 2, 3, 4, 5, 6, 7, noFid) }

func (s *whim) name() string {
	return pick(s, "dir", "f", "call", "ctl", "stream", "mute", "new", "..", ".", "", "a/b", "x\x00", strings.Repeat("n", 256), "dir")
}

func (s *whim) number() uint64 {
	return pick[uint64](s, 0, 1, 2, 10, 100, 4000, 8192, 1<<20, 1<<31, 1<<32-1, 1<<63-1, 1<<63, 1<<64-1)
}

// message is a request of whatever type, with whatever in it.
func (s *whim) message(d dialect) message {
	types := []messageType{
		twalk, twalk, tread, tread, twrite, tclunk, tattach, tremove, tauth,
		topen, topen, tcreate, tstat, twstat,
	}
	if d == linux {
		types = []messageType{
			twalk, twalk, tread, tread, twrite, tclunk, tattach, tremove, tauth,
			tlopen, tlopen, tlcreate, tgetattr, tsetattr, treaddir, tstatfs, tfsync, tlock, tgetlock,
			tmkdir, trename, trenameat, tunlinkat, txattrwalk, txattrcreate, tsymlink, tlink, tmknod, treadlink,
		}
	}
	m := message{Type: pick(s, types...), Fid: s.fid(), NewFid: s.fid(), Afid: noFid, DirFid: s.fid(), NUname: noUID}
	switch m.Type {
	case twalk:
		for range pick(s, 0, 1, 1, 2, 16) {
			m.Names = append(m.Names, s.name())
		}
	case tattach, tauth:
		m.Afid = pick[uint32](s, noFid, noFid, 3)
		m.Aname = pick(s, "", "/", "/dir", "?wait=1ms", "?wait=-1s", "?stream=plain", "?nothing", "no")
	case topen, tcreate, tlopen, tlcreate:
		m.Mode = pick[uint32](s, 0, 1, 2, 0x10, 0x11, 0x42, 3, 0xff)
		m.Flags = pick[uint32](s, 0, 1, 2, lTrunc|1, lAppend|1, 0o200000, 0xffffffff)
		m.Perm = pick[uint32](s, 0o644, dmDir|0o755, 0xffffffff)
		m.Name = s.name()
	case tread, treaddir, twrite:
		m.Offset, m.Count = s.number(), uint32(s.number())
		m.Data = []byte(pick(s, "", "x", "{}", "{", "go\n", strings.Repeat("y", 3000)))
	case twstat:
		m.Stat = keepDir()
		m.Stat.Length = pick[uint64](s, 1<<64-1, 0, 100)
		m.Stat.Name = pick(s, "", "new", "f", "a/b")
		m.Stat.Mode = pick[uint32](s, 1<<32-1, 0o600)
	case tgetattr, tsetattr:
		m.Valid = s.number()
		m.Set = setAttr{Mode: 0o600, Size: pick[uint64](s, 0, 10, 100), MtimeSec: s.number()}
	case tlock, tgetlock:
		m.Flags = pick[uint32](s, 0, lockBlock)
		m.Lock = lockRange{Type: s.byte() % 4, Start: s.number(), Length: s.number(), ProcID: uint32(s.byte() % 3), ClientID: "c"}
	default:
		m.Name, m.NewName, m.Target, m.Flags = s.name(), s.name(), "t", pick[uint32](s, 0, 0x200)
	}
	return m
}

// A hall counts what is open in a tree, in which everything can be done.
type hall struct {
	*disk
	open atomic.Int64
	gate atomic.Pointer[chan struct{}] // closed when reads of mute may end
}

// release ends the reads of mute that have begun.
func (h *hall) release() {
	next := make(chan struct{})
	if old := h.gate.Swap(&next); old != nil {
		close(*old)
	}
}

// releaseAll ends those that will begin, too.
func (h *hall) releaseAll() {
	now := make(chan struct{})
	close(now)
	close(*h.gate.Swap(&now))
}

// mute is a file whose reads do not mind their context.
type mute struct {
	fsys.Node
	h *hall
}

func (d mute) Open(context.Context, fsys.Flag) (fsys.Handle, error) { return muteHandle{d.h}, nil }

type muteHandle struct{ h *hall }

func (muteHandle) Close() error { return nil }

func (d muteHandle) ReadAt(_ context.Context, p []byte, _ int64) (int, error) {
	<-*d.h.gate.Load()
	return copy(p, "late"), nil
}

func newHall() *hall {
	h := &hall{disk: newDisk()}
	h.release()
	sub := &disk{files: map[string]fsys.Node{}, up: h.disk, gens: h.gens}
	h.files["dir"] = &counted{Node: sub, open: &h.open}
	grown := new(fsys.Memory)
	grown.Append([]byte("so far"))
	for name, n := range map[string]fsys.Node{
		"stream": fsys.NewTape(grown),
		"mute":   mute{fsys.NewTape(grown), h},
		"call":   &fsys.Call{Do: func(_ context.Context, req []byte) ([]byte, error) { return req, nil }},
		"ctl": &fsys.Ctl{
			Do:   func(_ context.Context, words []string) ([]byte, error) { return []byte(words[0]), nil },
			Text: func(context.Context) ([]byte, error) { return []byte("go\n"), nil },
		},
	} {
		h.files[name] = &counted{Node: n, open: &h.open}
		sub.files[name] = h.files[name]
	}
	h.files["f"] = &diskFile{dir: h.disk, name: "f", gen: 1 << 40, b: []byte("hello, world\n"), perm: 0o644}
	return h
}

// counted is a node that counts its handles. It has what every node here has.
type counted struct {
	fsys.Node
	open *atomic.Int64
}

func (c *counted) Open(ctx context.Context, flag fsys.Flag) (fsys.Handle, error) {
	h, err := c.Node.Open(ctx, flag)
	if err != nil {
		return nil, err
	}
	c.open.Add(1)
	return &countedHandle{Handle: h, open: c.open}, nil
}

func (c *counted) Walk(ctx context.Context, name string) (fsys.Node, error) {
	return fsys.Walk(ctx, c.Node, name)
}

func (c *counted) List(ctx context.Context) ([]fsys.Entry, error) { return fsys.List(ctx, c.Node) }

func (c *counted) Truncate(ctx context.Context, size int64) error {
	return fsys.Truncate(ctx, c.Node, size)
}

type countedHandle struct {
	fsys.Handle
	open   *atomic.Int64
	closed atomic.Bool
}

func (h *countedHandle) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	return fsys.ReadAt(ctx, h.Handle, p, off)
}

func (h *countedHandle) WriteAt(ctx context.Context, p []byte, off int64) (int, error) {
	return fsys.WriteAt(ctx, h.Handle, p, off)
}

func (h *countedHandle) Sync(ctx context.Context) error { return fsys.Sync(ctx, h.Handle) }

func (h *countedHandle) Close() error {
	if h.closed.Swap(true) {
		panic("a handle was closed twice")
	}
	h.open.Add(-1)
	return h.Handle.Close()
}

// A judge sends what a whim says and holds the server to what it promises
// of any client: each request is answered once, by its reply or an error, no
// reply comes for a tag whose flush was answered, and what is not a fid is
// none.
type judge struct {
	t       testing.TB
	conn    net.Conn
	frames  chan []byte // that came; closed at the end
	dialect dialect
	msize   uint32
	begun   bool // a version was agreed
	due     map[uint16]*asked
	fids    map[uint32]bool // in use for sure, or free for sure; else not in it
	release func()
	log     []string
}

type asked struct {
	message
	flushes *asked // what a Tflush flushes
	free    bool   // the fid it is about was free when it was sent
	taken   bool   // the fid it makes was in use
	decodes bool
}

func (j *judge) failf(format string, args ...any) {
	j.t.Helper()
	j.t.Fatalf("%s\nafter:\n%s", fmt.Sprintf(format, args...), strings.Join(j.log[max(0, len(j.log)-40):], "\n"))
}

func (j *judge) logf(format string, args ...any) { j.log = append(j.log, fmt.Sprintf(format, args...)) }

// freeTag returns a tag that is not in use, or false.
func (j *judge) freeTag(s *whim) (uint16, bool) {
	first := uint16(s.byte() % 16)
	for i := range uint16(16) {
		if tag := (first + i) % 16; j.due[tag] == nil {
			return tag, true
		}
	}
	return 0, false
}

func (j *judge) write(b []byte) bool {
	j.conn.SetWriteDeadline(time.Now().Add(patience))
	_, err := j.conn.Write(b)
	return err == nil
}

// ask sends m, whose tag is free.
func (j *judge) ask(m message) *asked {
	b, err := appendMessage(nil, j.dialect, &m)
	if err != nil {
		j.failf("%v does not encode: %v", m.Type, err)
	}
	a := &asked{message: m, decodes: decodeMessage(b, j.dialect, new(message)) == nil}
	j.expect(a)
	j.logf("> %v tag %d fid %d new %d %q", m.Type, m.Tag, m.Fid, m.NewFid, m.Names)
	if !j.write(b) {
		j.failf("the server does not take %v", m.Type)
	}
	return a
}

// expect notes that a is sent, and what is known before.
func (j *judge) expect(a *asked) {
	m := &a.message
	num, made, makes := m.Fid, uint32(0), false
	switch m.Type {
	case tflush:
		a.flushes = j.due[m.OldTag]
		j.due[m.Tag] = a
		return
	case tmkdir, tunlinkat, tsymlink, tmknod, tlink:
		num = m.DirFid
	case twalk:
		made, makes = m.NewFid, m.NewFid != m.Fid
	case tattach:
		num, made, makes = noFid, m.Fid, true
	case txattrwalk:
		made, makes = m.NewFid, true
	case tauth:
		num = noFid
	}
	if len(j.due) > 0 { // what comes first is not known
		for _, other := range j.due {
			j.doubt(other)
		}
		defer j.doubt(a)
	}
	used, known := j.fids[num]
	a.free = num != noFid && known && !used
	if used, known := j.fids[made]; makes && known && used {
		a.taken = true
	}
	j.due[m.Tag] = a
}

// doubt forgets what is known of the fids that a names.
func (j *judge) doubt(a *asked) {
	for _, num := range []uint32{a.Fid, a.NewFid, a.DirFid} {
		delete(j.fids, num)
	}
}

// hear judges the next reply, and returns what it answers; nil is the end.
func (j *judge) hear() *asked {
	j.t.Helper()
	var b []byte
	select {
	case b = <-j.frames:
	case <-time.After(patience):
		j.failf("no answer to %d requests", len(j.due))
	}
	if b == nil {
		return nil
	}
	if uint32(len(b)) > max(j.msize, minMsize) {
		j.failf("a reply of %d bytes", len(b))
	}
	var m message
	if err := decodeMessage(b, j.dialect, &m); err != nil {
		j.failf("a reply that is none: % x: %v", b, err)
	}
	j.logf("< %v tag %d %s", m.Type, m.Tag, m.failure())
	a := j.due[m.Tag]
	if a == nil {
		j.failf("%v for tag %d, which nobody asked for", m.Type, m.Tag)
	}
	delete(j.due, m.Tag)
	failed := m.Type == rerror || m.Type == rlerror
	switch {
	case !failed && m.Type != a.Type+1:
		j.failf("%v is answered by %v", a.Type, m.Type)
	case !failed && (!a.decodes || !j.begun && a.Type != tversion):
		j.failf("%v was accepted, though it is malformed or before a session", a.Type)
	case !failed && a.free:
		j.failf("%v was accepted for a fid that is not in use", a.Type)
	case !failed && a.taken:
		j.failf("%v made a fid that was in use", a.Type)
	case failed && a.Type == tversion && a.decodes:
		j.failf("Tversion was refused: %s", m.failure())
	case !failed && (a.Type == tread || a.Type == treaddir) && uint32(len(m.Data)) > a.Count:
		j.failf("%v of %d got %d bytes", a.Type, a.Count, len(m.Data))
	case !failed && a.Type == twalk && len(m.Qids) > len(a.Names):
		j.failf("Twalk of %d names got %d", len(a.Names), len(m.Qids))
	}
	if a.flushes != nil && !failed {
		for tag, other := range j.due {
			if other == a.flushes {
				delete(j.due, tag)
			}
		}
	}
	j.learn(a, &m, failed)
	return a
}

// hearOf waits for the answer to what bears tag.
func (j *judge) hearOf(tag uint16) {
	j.t.Helper()
	for a := j.due[tag]; j.due[tag] == a; {
		if j.hear() == nil {
			j.failf("the server hung up")
		}
	}
}

// learn notes what the answer m to a tells about fids, if nothing else was
// under way.
func (j *judge) learn(a *asked, m *message, failed bool) {
	if len(j.due) > 0 {
		j.doubt(a)
		return
	}
	switch a.Type {
	case tclunk, tremove:
		if a.decodes {
			j.fids[a.Fid] = false
		}
	case tattach:
		if !failed {
			j.fids[a.Fid] = true
		}
	case twalk:
		if !failed && len(m.Qids) == len(a.Names) {
			j.fids[a.NewFid] = true
		}
	case txattrwalk:
		if !failed {
			j.fids[a.NewFid] = true
		}
	}
}

// waits reports whether a may wait for what never comes.
func (a *asked) waits() bool {
	switch a.Type {
	case tread, tlock, twrite, tclunk, tremove, tfsync:
		return true
	}
	return false
}

// version sends Tversion and waits for the answer: what was asked before is
// not answered after it.
func (j *judge) version(version string, msize uint32, tag uint16) bool {
	if j.due[tag] != nil {
		delete(j.due, tag) // either answer may come; what comes is not told apart
	}
	b := encode(j.t, j.dialect, &message{Type: tversion, Tag: tag, Msize: msize, Version: version})
	j.logf("> Tversion %s %d", version, msize)
	if !j.write(b) {
		j.failf("the server does not take Tversion")
	}
	for {
		var f []byte
		select {
		case f = <-j.frames:
		case <-time.After(patience):
			j.failf("no answer to Tversion")
		}
		var m message
		if f == nil {
			j.failf("the server hung up on Tversion")
		}
		if err := decodeMessage(f, j.dialect, &m); err != nil {
			j.failf("a reply that is none: % x: %v", f, err)
		}
		if m.Type != rversion {
			if j.due[m.Tag] == nil {
				j.failf("%v for tag %d, which nobody asked for", m.Type, m.Tag)
			}
			delete(j.due, m.Tag)
			continue
		}
		clear(j.due)
		clear(j.fids)
		j.begun = m.Version != "unknown"
		j.dialect, _ = dialectOf(m.Version)
		if j.begun {
			j.msize = m.Msize
			for num := range uint32(8) {
				j.fids[num] = false
			}
		}
		if want := msize >= minMsize && strings.HasPrefix(version, "9P2000"); want != j.begun {
			j.failf("Tversion %s %d is answered by %s", version, msize, m.Version)
		}
		return true
	}
}

// quiet flushes all that is due, and waits until nothing is.
func (j *judge) quiet() {
	tags := make([]uint16, 0, len(j.due))
	for tag := range j.due {
		tags = append(tags, tag)
	}
	slices.Sort(tags)
	next := uint16(1000)
	for _, tag := range tags {
		if j.due[tag] == nil {
			continue
		}
		j.ask(message{Type: tflush, Tag: next, OldTag: tag})
		next++
	}
	for len(j.due) > 0 {
		if j.hear() == nil {
			j.failf("the server hung up with %d requests due", len(j.due))
		}
	}
	j.release()
}

// ended waits until the server has hung up.
func (j *judge) ended() {
	for {
		select {
		case b := <-j.frames:
			if b == nil {
				return
			}
		case <-time.After(patience):
			j.failf("the server did not hang up")
		}
	}
}

// play does what s says.
func (j *judge) play(s *whim) {
	if !j.version(pick(s, "9P2000", "9P2000.L"), 4096, noTag) {
		return
	}
	j.ask(message{Type: tattach, Tag: 0, Fid: 0, Afid: noFid})
	j.hear()
	for len(s.b) > 0 {
		tag, ok := j.freeTag(s)
		if !ok {
			j.quiet()
			continue
		}
		switch what := s.byte() % 32; what {
		case 0:
			version := pick(s, "9P2000", "9P2000.L", "9P2000.u", "9P1999", "")
			if !j.version(version, pick[uint32](s, 4096, 8192, 1<<30, 100), pick(s, noTag, tag)) {
				return
			}
			if j.begun {
				j.ask(message{Type: tattach, Tag: 1, Fid: 0, Afid: noFid})
				j.hear()
			}
		case 1, 2, 3:
			old := uint16(s.byte() % 18)
			for tag := range uint16(16) { // one that is due, if there is
				if t := (old + tag) % 16; j.due[t] != nil {
					old = t
					break
				}
			}
			j.ask(message{Type: tflush, Tag: tag, OldTag: old})
		case 4:
			if j.junk(s, tag) {
				return
			}
		case 5:
			for other := range j.due { // an answer to either would be taken for the other's
				if !j.due[other].waits() {
					continue
				}
				j.logf("> tag %d again", other)
				j.write(encode(j.t, j.dialect, &message{Type: tclunk, Tag: other, Fid: 0}))
				j.endOrAnswer()
				return
			}
		case 6:
			j.quiet()
		case 7, 8, 9, 10, 11: // a file opened, so that more than refusals is seen
			fid := 1 + uint32(s.byte()%7)
			j.ask(message{Type: twalk, Tag: tag, Fid: 0, NewFid: fid, Names: []string{pick(s, "stream", "mute", "f", "call", "dir")}})
			j.hearOf(tag)
			m := openMessage(j.dialect, fid, pick(s, fsys.Read, fsys.Read|fsys.Write))
			m.Tag = tag
			j.ask(m)
			j.hearOf(tag)
			m = message{Type: tread, Tag: tag, Fid: fid, Offset: pick[uint64](s, 0, 6), Count: 100}
			j.ask(m)
		default:
			m := s.message(j.dialect)
			m.Tag = tag
			a := j.ask(m)
			if what%2 == 0 && !a.waits() {
				j.hearOf(tag)
			}
		}
	}
	if len(j.log)%2 == 0 { // else it hangs up in the middle
		j.quiet()
	}
}

// junk sends a frame of random bytes, and reports whether that must be the
// last one.
func (j *judge) junk(s *whim, tag uint16) (last bool) {
	n := int(s.byte() % 48)
	b := make([]byte, 7+n)
	for i := range b {
		b[i] = s.byte()
	}
	binary.LittleEndian.PutUint32(b, uint32(len(b)))
	binary.LittleEndian.PutUint16(b[5:], tag)
	if s.byte()%8 == 0 { // a size that cannot be
		binary.LittleEndian.PutUint32(b, pick[uint32](s, 0, 6, 1<<31, 1<<32-1, maxMsize+1))
		j.logf("> a frame of an impossible size")
		j.write(b)
		j.ended()
		return true
	}
	var m message
	a := &asked{decodes: decodeMessage(b, j.dialect, &m) == nil}
	a.message = m
	a.Type, a.Tag = messageType(b[4]), tag
	if a.Type == tversion {
		return false // see version
	}
	j.expect(a)
	j.logf("> junk % x", b)
	if !j.write(b) {
		j.failf("the server does not take junk")
	}
	return false
}

// endOrAnswer waits for the end, or, if the request was answered before its
// tag was used again, goes on.
func (j *judge) endOrAnswer() {
	j.conn.SetDeadline(time.Now().Add(patience))
	for {
		select {
		case b := <-j.frames:
			if b == nil {
				return
			}
			// The answer to the one or the other: the tag may have been free.
			j.conn.Close()
		case <-time.After(patience):
			j.failf("a tag used twice had no effect")
		}
	}
}

// playAll is one connection that does what in says.
func playAll(t testing.TB, in []byte) {
	h := newHall()
	s := &Server{MaxFids: 6, MaxRequests: 10, Attach: func(_ context.Context, _ Peer, _, aname string) (Grant, error) {
		if aname == "no" {
			return Grant{}, fsys.Permission
		}
		return Grant{Root: h, Caller: "c"}, nil
	}}
	server, client := net.Pipe()
	served := make(chan struct{})
	go func() {
		defer close(served)
		s.ServeConn(server)
	}()
	j := &judge{t: t, conn: client, frames: make(chan []byte, 1<<12), due: map[uint16]*asked{}, fids: map[uint32]bool{}, release: h.release}
	go func() { // ends with the connection
		defer close(j.frames)
		in := newFrameReader(client)
		for {
			b, err := in.next(maxMsize)
			if err != nil {
				return
			}
			j.frames <- slices.Clone(b)
		}
	}()
	defer func() {
		client.Close()
		h.releaseAll()
		await(t, served, "the server to leave the connection")
		if n := h.open.Load(); n != 0 {
			t.Errorf("%d handles are still open\nafter:\n%s", n, strings.Join(j.log, "\n"))
		}
		if n := s.Locks.Len(); n != 0 {
			t.Errorf("%d files are still locked", n)
		}
	}()
	j.play(&whim{b: in})
}

// Whatever a client says, in whatever order, the server keeps its promises.
func FuzzSession(f *testing.F) {
	for _, seed := range []int{0, 1, 2, 3, 4, 5, 6, 7} {
		f.Add(random(seed, 300))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) > 4096 {
			return
		}
		playAll(t, in)
	})
}

// random returns n bytes that depend on seed only.
func random(seed, n int) []byte {
	b := make([]byte, n)
	x := uint64(seed)*0x9e3779b97f4a7c15 + 1
	for i := range b {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b[i] = byte(x >> 32)
	}
	return b
}

func TestRandomSessions(t *testing.T) {
	sessions := 400
	if testing.Short() {
		sessions = 50
	}
	playAll(t, nil)
	before := settled(t)
	for seed := range sessions {
		playAll(t, random(seed+1000, 600))
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	settles(t, before)
}
