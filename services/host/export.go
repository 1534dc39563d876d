package host

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync"

	"agent9/fsys"
	"agent9/services/agent"
	"agent9/services/bundle"
	"agent9/store"
)

// packed is the bundle of an agent.
type packed struct {
	h     *Host
	name  string
	entry entry
}

var _ fsys.Truncater = (*packed)(nil)

func (p *packed) Stat(context.Context) (fsys.Info, error) {
	return fsys.Info{Kind: fsys.Message, Large: true, Acts: true, Perm: 0o600, Gen: p.entry.ID}, nil
}

func (p *packed) Truncate(context.Context, int64) error { return nil }

func (p *packed) Open(_ context.Context, flag fsys.Flag) (fsys.Handle, error) {
	return &unpacking{of: p, flag: flag}, nil
}

// write makes the bundle as it is at this moment.
func (p *packed) write(ctx context.Context, w io.Writer, passphrase []byte) error {
	s := p.h.agents
	return s.st.View(ctx, func(v store.Store) error {
		switch now, err := s.entry(ctx, v, p.name); {
		case err != nil:
			return err
		case now != p.entry:
			return fsys.NotExist
		}
		c, err := agent.Pack(ctx, store.Part(v, p.entry.part()), s.house, p.name, passphrase)
		if err != nil {
			return err
		}
		c.Agent9 = strings.Fields(version())[1]
		return bundle.Write(w, c)
	})
}

// unpacking is an open bundle. It is made by the first read, in a file, so that
// a slow reader keeps nothing waiting.
type unpacking struct {
	of   *packed
	flag fsys.Flag
	turn fsys.Mutex // guards what follows, but for closing

	req    []byte
	asked  bool  // a request was written: offsets do not count
	at     int64 // where the next read is, if so
	made   bool
	failed error

	mu     sync.Mutex
	spool  *os.File
	closed bool
}

var (
	_ fsys.Reader = (*unpacking)(nil)
	_ fsys.Writer = (*unpacking)(nil)
	_ fsys.Syncer = (*unpacking)(nil)
)

func (u *unpacking) WriteAt(ctx context.Context, p []byte, _ int64) (int, error) {
	if u.flag&fsys.Write == 0 {
		return 0, fsys.BadHandle
	}
	if err := u.turn.Lock(ctx); err != nil {
		return 0, err
	}
	defer u.turn.Unlock()
	switch {
	case u.made:
		return 0, fsys.E(fsys.Busy, "this bundle was made already; open the file again")
	case len(u.req)+len(p) > maxWish:
		return 0, fsys.E(fsys.TooLarge, "the request is longer than this file accepts")
	}
	u.req, u.asked = append(u.req, p...), true
	return len(p), nil
}

// passphrase returns what the request says; nil if there is none.
func (u *unpacking) passphrase() ([]byte, error) {
	if len(bytes.TrimSpace(u.req)) == 0 {
		return nil, nil
	}
	defer clear(u.req)
	var wish struct {
		Passphrase *string `json:"passphrase"`
	}
	if err := fsys.Strictly(u.req, &wish); err != nil || wish.Passphrase == nil || *wish.Passphrase == "" {
		return nil, fsys.E(fsys.Invalid, `a request for a bundle is {"passphrase": "…"}, and none for one without keys`)
	}
	return []byte(*wish.Passphrase), nil
}

func (u *unpacking) make(ctx context.Context) error {
	passphrase, err := u.passphrase()
	if err != nil {
		return err
	}
	defer clear(passphrase)
	spool, err := newSpool(u.of.h.opts.Spool)
	if err != nil {
		return err
	}
	if err := u.of.write(ctx, spool, passphrase); err != nil {
		spool.Close()
		return spoolFailed(err)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		spool.Close()
		return fsys.BadHandle
	}
	u.spool = spool
	return nil
}

func (u *unpacking) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	if u.flag&fsys.Read == 0 {
		return 0, fsys.BadHandle
	}
	if err := u.turn.Lock(ctx); err != nil {
		return 0, err
	}
	defer u.turn.Unlock()
	if !u.made {
		err := u.make(ctx)
		if err != nil && ctx.Err() != nil {
			return 0, err // another read may try again
		}
		u.made, u.failed = true, err
	}
	if u.failed != nil {
		return 0, u.failed
	}
	if u.asked {
		off = u.at
	}
	n, err := u.spool.ReadAt(p, off)
	u.at += int64(n)
	switch {
	case errors.Is(err, os.ErrClosed):
		return n, fsys.BadHandle
	case errors.Is(err, io.EOF) && n > 0:
		return n, nil
	}
	return n, err
}

// Sync has nothing to do: a request acts when the bundle is read.
func (u *unpacking) Sync(context.Context) error { return nil }

func (u *unpacking) Close() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.closed = true
	if u.spool != nil {
		u.spool.Close()
	}
	return nil
}

// spoolFailed gives an error of the disk a code.
func spoolFailed(err error) error {
	var p *os.PathError
	if errors.As(err, &p) {
		return fsys.Wrap(fsys.Unavailable, "the file for the bundle", p.Err)
	}
	return err
}
