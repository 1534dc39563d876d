package containers

import (
	"context"
	"io"
	"strings"
	"sync"

	"agent9/fsys"
)

func stringReader(s string) io.Reader { return strings.NewReader(s) }

// errNoReader is what a write to the stdin of a command gets that has ended.
var errNoReader = fsys.E(fsys.Busy, "the command does not read any more")

// pipe is what a command reads, which is written to a file. A write waits until
// all of it was read, so that who writes too much waits for the command.
type pipe struct {
	end  chan struct{} // closed when no more will be written, or read
	turn chan struct{} // has room for one writer
	data chan []byte
	took chan int
	once sync.Once
}

func newPipe() *pipe {
	return &pipe{end: make(chan struct{}), turn: make(chan struct{}, 1), data: make(chan []byte), took: make(chan int)}
}

// close ends the pipe for both sides.
func (p *pipe) close() { p.once.Do(func() { close(p.end) }) }

// Read is for the command.
func (p *pipe) Read(b []byte) (int, error) {
	select {
	case data := <-p.data:
		n := copy(b, data)
		p.took <- n
		return n, nil
	case <-p.end:
		return 0, io.EOF
	}
}

// write gives the command b.
func (p *pipe) write(ctx context.Context, b []byte) (n int, err error) {
	select {
	case p.turn <- struct{}{}:
	case <-p.end:
		return 0, errNoReader
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	defer func() { <-p.turn }()
	for n < len(b) {
		select {
		case p.data <- b[n:]:
			n += <-p.took
		case <-p.end:
			return n, errNoReader
		case <-ctx.Done():
			return n, context.Cause(ctx)
		}
	}
	return n, nil
}

// stdinFile is what a command reads.
type stdinFile struct{ x *exec }

var _ fsys.Truncater = stdinFile{}

// Stat says that it acts: nobody can read it, so it is nothing for who reads
// all that is listed.
func (f stdinFile) Stat(context.Context) (fsys.Info, error) {
	return fsys.Info{Kind: fsys.Message, Perm: 0o222, Acts: true}, nil
}

// Truncate is what a shell's > sends before it writes.
func (f stdinFile) Truncate(context.Context, int64) error { return nil }

func (f stdinFile) Open(ctx context.Context, flag fsys.Flag) (fsys.Handle, error) {
	switch {
	case flag&fsys.Read != 0:
		return nil, fsys.E(fsys.Permission, "what a command reads can only be written")
	case f.x.stdin == nil:
		return nil, fsys.E(fsys.Busy, "the command has no input, or has ended")
	}
	if err := f.x.w.takesFrom(ctx); err != nil {
		return nil, err
	}
	return &stdinHandle{x: f.x}, nil
}

// stdinHandle ends the command's input when it is closed in order: by a Sync
// that follows the last write, and then Close. A terminal's input is ended by
// ctl only.
type stdinHandle struct {
	x *exec

	mu     sync.Mutex
	synced bool // since the last write
}

var (
	_ fsys.Writer = (*stdinHandle)(nil)
	_ fsys.Syncer = (*stdinHandle)(nil)
)

func (h *stdinHandle) WriteAt(ctx context.Context, p []byte, _ int64) (int, error) {
	h.x.w.use()
	n, err := h.x.stdin.write(ctx, p)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.synced = false
	return n, err
}

func (h *stdinHandle) Sync(context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.synced = true
	return nil
}

func (h *stdinHandle) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.synced && h.x.cmd.TTY == nil {
		h.x.stdin.close()
	}
	return nil
}
