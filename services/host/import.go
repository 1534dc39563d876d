package host

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"agent9/fsys"
	"agent9/services/agent"
	"agent9/services/bundle"
	"agent9/store"
)

// maxWish is how long what is before a bundle can be, and maxBundle a bundle.
const (
	maxWish   = 64 << 10
	maxBundle = 64 << 30
)

// wish is what can be written before a bundle.
type wish struct {
	Name        string `json:"name"`
	Mode        string `json:"mode"`
	NewIdentity bool   `json:"new_identity"`
	Passphrase  string `json:"passphrase"`
}

// result is the reply.
type result struct {
	Name   string `json:"name"`
	Mode   string `json:"mode"`
	Of     string `json:"of"` // the name in the bundle
	Pubkey string `json:"pubkey"`
	Was    string `json:"was_pubkey,omitempty"` // if that is another one
}

const (
	modeRestore = "restore"
	modeClone   = "clone"
)

func parseWish(doc []byte) (w wish, err error) {
	if err := fsys.Strictly(doc, &w); err != nil {
		return w, fsys.E(fsys.Invalid, "before the bundle: "+err.Error()+"; there are name, mode, new_identity and passphrase")
	}
	switch w.Mode {
	case "", modeRestore, modeClone:
		return w, nil
	}
	return w, fsys.E(fsys.Invalid, "mode is restore or clone, not "+w.Mode)
}

// unpack makes the agent of a bundle of size bytes.
func (h *Host) unpack(ctx context.Context, r io.ReaderAt, size int64, w wish) (result, error) {
	b, err := bundle.Open(r, size)
	if err != nil {
		return result{}, err
	}
	if w.Name == "" {
		w.Name = b.Name
	}
	if w.Mode == "" {
		w.Mode = modeRestore
	}
	ask := agent.Wish{Name: w.Name, Clone: w.Mode == modeClone, NewIdentity: w.NewIdentity}
	if w.Passphrase != "" {
		ask.Passphrase = []byte(w.Passphrase)
		defer clear(ask.Passphrase)
	}
	if err := ask.Check(b); err != nil {
		return result{}, err
	}
	a, err := h.agents.restore(ctx, w.Name, func(e entry) (string, error) {
		return agent.Unpack(ctx, store.Sub(h.opts.Store, e.part()), h.agents.house, b, ask)
	})
	if errors.Is(err, fsys.Exist) {
		return result{}, fsys.E(fsys.Exist, "there is an agent called "+w.Name+"; give this one another name: agentctl import --as NAME")
	}
	if err != nil {
		return result{}, err
	}
	res := result{Name: w.Name, Mode: w.Mode, Of: b.Name, Pubkey: a.Pubkey()}
	h.agents.house.Happened(w.Name, happened(h.opts.Now(), "agent.imported"))
	if res.Pubkey == b.Pubkey {
		return res, nil // it is who it was, to the last byte of its logs
	}
	res.Was = b.Pubkey
	return res, a.Note(ctx, "agent.imported", res)
}

// uploads is the file new.
type uploads struct{ h *Host }

var _ fsys.Truncater = uploads{}

func (u uploads) Stat(context.Context) (fsys.Info, error) {
	return fsys.Info{Kind: fsys.Message, Large: true, Perm: 0o600}, nil
}

func (u uploads) Truncate(context.Context, int64) error { return nil }

func (u uploads) Open(ctx context.Context, flag fsys.Flag) (fsys.Handle, error) {
	return &upload{h: u.h, flag: flag, opened: context.WithoutCancel(ctx)}, nil
}

// upload is a bundle that comes.
type upload struct {
	h      *Host
	flag   fsys.Flag
	opened context.Context
	turn   fsys.Mutex // guards what follows, but for closing

	head   []byte // a wish that is not whole yet, or what may be one
	wish   wish
	inTar  bool
	extent bundle.Extent
	size   int64
	acted  bool
	failed error
	reply  []byte

	mu     sync.Mutex
	spool  *os.File
	closed bool
}

var (
	_ fsys.Reader = (*upload)(nil)
	_ fsys.Writer = (*upload)(nil)
	_ fsys.Syncer = (*upload)(nil)
)

func (u *upload) WriteAt(ctx context.Context, p []byte, _ int64) (int, error) {
	if u.flag&fsys.Write == 0 {
		return 0, fsys.BadHandle
	}
	if err := u.turn.Lock(ctx); err != nil {
		return 0, err
	}
	defer u.turn.Unlock()
	if u.failed == nil {
		u.failed = u.feed(ctx, p)
	}
	if u.failed != nil {
		return 0, u.failed
	}
	return len(p), nil
}

// feed takes p; what completes the bundle makes the agent.
func (u *upload) feed(ctx context.Context, p []byte) error {
	if !u.inTar {
		rest, err := u.begin(p)
		if err != nil || rest == nil {
			return err
		}
		p = rest
	}
	if u.acted {
		if len(bytes.Trim(p, "\x00")) > 0 { // tar may fill its last record with zeros
			return fsys.E(fsys.Invalid, "there is more after the bundle")
		}
		return nil
	}
	n, whole, err := u.extent.Feed(p)
	if err != nil {
		return err
	}
	if err := u.store(p[:n]); err != nil || !whole {
		return err
	}
	if err := u.act(ctx); err != nil {
		return err
	}
	return u.feed(ctx, p[n:])
}

// begin takes what is before the bundle, and returns what is left of p; nil if
// the wish is not whole yet.
func (u *upload) begin(p []byte) ([]byte, error) {
	u.head = append(u.head, p...)
	text := bytes.TrimLeft(u.head, " \t\r\n")
	if len(text) == 0 || text[0] != '{' {
		if len(text) == 0 && len(u.head) <= maxWish {
			return nil, nil
		}
		u.inTar, u.head = true, nil
		return text, nil
	}
	d := json.NewDecoder(bytes.NewReader(text))
	var doc json.RawMessage
	switch err := d.Decode(&doc); {
	case err == nil:
	case errors.Is(err, io.ErrUnexpectedEOF) && len(text) <= maxWish:
		return nil, nil
	default:
		return nil, fsys.E(fsys.Invalid, "what is before the bundle begins like a JSON object, but is not one")
	}
	var err error
	if u.wish, err = parseWish(doc); err != nil {
		return nil, err
	}
	rest := bytes.TrimLeft(text[d.InputOffset():], " \t\r\n")
	u.head = nil
	if len(rest) == 0 {
		return nil, nil
	}
	u.inTar = true
	return bytes.Clone(rest), nil
}

func (u *upload) store(p []byte) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return fsys.BadHandle
	}
	if u.spool == nil {
		var err error
		if u.spool, err = newSpool(u.h.opts.Spool); err != nil {
			return err
		}
	}
	if u.size+int64(len(p)) > maxBundle {
		return fsys.E(fsys.TooLarge, fmt.Sprintf("a bundle has %d bytes at most", int64(maxBundle)))
	}
	n, err := u.spool.WriteAt(p, u.size)
	u.size += int64(n)
	if err != nil {
		return spoolFailed(err)
	}
	return nil
}

func (u *upload) act(ctx context.Context) error {
	u.acted = true
	res, err := u.h.unpack(fsys.Join(ctx, u.opened), u.spool, u.size, u.wish)
	u.wish.Passphrase = ""
	if err == nil {
		u.reply = fsys.Line(res)
	}
	return err
}

// ended is what is wrong if nothing more comes; it may come all the same.
func (u *upload) ended() error {
	if u.failed == nil && !u.acted && (u.inTar || len(u.head) > 0) {
		return fsys.E(fsys.Invalid, "the bundle ends too early; nothing was made")
	}
	return u.failed
}

func (u *upload) ReadAt(ctx context.Context, p []byte, _ int64) (int, error) {
	if u.flag&fsys.Read == 0 {
		return 0, fsys.BadHandle
	}
	if err := u.turn.Lock(ctx); err != nil {
		return 0, err
	}
	defer u.turn.Unlock()
	if err := u.ended(); err != nil {
		return 0, err
	}
	switch {
	case !u.acted && u.flag&fsys.Write != 0:
		return 0, fsys.E(fsys.Busy, "write a bundle first, then read the reply on the same open file")
	case len(u.reply) == 0:
		return 0, io.EOF
	}
	n := copy(p, u.reply)
	u.reply = u.reply[n:]
	return n, nil
}

func (u *upload) Sync(ctx context.Context) error {
	if err := u.turn.Lock(ctx); err != nil {
		return err
	}
	defer u.turn.Unlock()
	return u.ended()
}

func (u *upload) Close() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.closed = true
	if u.spool != nil {
		u.spool.Close()
	}
	return nil
}
