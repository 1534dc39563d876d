package host

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"agent9/fsys"
	"agent9/services/identity"
	"agent9/store"
)

// DatabaseName is what the database is called in a data directory, and in a
// backup.
const DatabaseName = "agent9.db"

// backup is the file backup. A read makes a copy of the database, as a tar
// archive that unpacks into a data directory.
type backup struct{ h *Host }

func (b backup) Stat(context.Context) (fsys.Info, error) {
	return fsys.Info{Kind: fsys.Message, Large: true, Acts: true, Perm: 0o400}, nil
}

func (b backup) Open(_ context.Context, flag fsys.Flag) (fsys.Handle, error) {
	if flag&fsys.Write != 0 {
		return nil, fsys.E(fsys.Permission, "a backup can only be read")
	}
	return &copying{of: b}, nil
}

// notInside is what a person who restores must know.
func notInside(ring string) string {
	return fmt.Sprintf(`This is the database of an agent9 daemon as it was at one moment. To restore it,
unpack it into an empty directory, check that with agentd fsck DIR, and start
agentd --data DIR.

Not inside:
- %s
- the files in sandboxes and workspaces, which are with the provider (the
  Docker engine, or DIR/containers for bubblewrap): sessions that ran are found
  as interrupted, and a workspace begins empty if the provider has lost it
- what waited in memory: output of a job of the last moments before the copy
- the command line of the daemon, TLS certificates, and keys of providers
`, ring)
}

// write makes the archive. The copy is spooled first, so that a slow reader
// keeps no writer waiting, and because an archive begins with sizes.
func (b backup) write(ctx context.Context, w *os.File) error {
	st := b.h.opts.Store
	c, ok := st.(store.Copier)
	if !ok {
		return fsys.E(fsys.Unsupported, "this daemon's store cannot be copied")
	}
	spool, err := newSpool(b.h.opts.Spool)
	if err != nil {
		return err
	}
	defer spool.Close()
	if err := c.Copy(ctx, spool); err != nil {
		return spoolFailed(err)
	}
	if err := c.Verify(ctx, spool); err != nil {
		return fsys.Wrap(fsys.Internal, "no backup was made; with the daemon stopped, agentd fsck names all that is damaged, and the directory can be copied as it is", err)
	}
	ring, err := identity.Explain(ctx, store.Sub(st, KeyRingPart))
	if err != nil {
		return err
	}
	size, err := spool.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = spool.Seek(0, io.SeekStart)
	}
	if err != nil {
		return spoolFailed(err)
	}
	now := b.h.opts.Now().Truncate(time.Second)
	text := version() + "made " + fsys.Stamp(now) + "\n\n" + notInside(ring)
	t := tar.NewWriter(w)
	for _, f := range []struct {
		name string
		size int64
		from io.Reader
	}{{"BACKUP", int64(len(text)), strings.NewReader(text)}, {DatabaseName, size, spool}} {
		err := t.WriteHeader(&tar.Header{Name: f.name, Mode: 0o600, Size: f.size, ModTime: now, Format: tar.FormatPAX})
		if err == nil {
			_, err = io.Copy(t, f.from)
		}
		if err != nil {
			return spoolFailed(err)
		}
	}
	return spoolFailed(t.Close())
}

// copying is an open backup. It is made by the first read.
type copying struct {
	of   backup
	turn fsys.Mutex // guards made and failed

	made   bool
	failed error

	mu     sync.Mutex
	spool  *os.File
	closed bool
}

var _ fsys.Reader = (*copying)(nil)

func (c *copying) make(ctx context.Context) error {
	spool, err := newSpool(c.of.h.opts.Spool)
	if err != nil {
		return err
	}
	if err := c.of.write(ctx, spool); err != nil {
		spool.Close()
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		spool.Close()
		return fsys.BadHandle
	}
	c.spool = spool
	return nil
}

func (c *copying) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	if err := c.turn.Lock(ctx); err != nil {
		return 0, err
	}
	defer c.turn.Unlock()
	if !c.made {
		err := c.make(ctx)
		if err != nil && ctx.Err() != nil {
			return 0, err // another read may try again
		}
		c.made, c.failed = true, err
	}
	if c.failed != nil {
		return 0, c.failed
	}
	n, err := c.spool.ReadAt(p, off)
	switch {
	case errors.Is(err, os.ErrClosed):
		return n, fsys.BadHandle
	case errors.Is(err, io.EOF) && n > 0:
		return n, nil
	}
	return n, err
}

func (c *copying) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.spool != nil {
		c.spool.Close()
	}
	return nil
}
