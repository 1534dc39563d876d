package sandboxes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"

	"agent9/fsys"
	"agent9/fsys/ninep"
)

// A run is one life of a sandbox: the connection to its box.
type run struct {
	client  *ninep.Client
	root    *ninep.Remote
	where   Where
	seesOOM bool
	calls   chan net.Conn
	done    chan struct{} // closed when the connection has ended

	ctx    context.Context // of what belongs to the run
	cancel context.CancelCauseFunc

	mu     sync.Mutex // guards the beginning of tasks against close
	tasks  sync.WaitGroup
	closed bool
}

// newRun agrees with the box at the other end of conn, which is the run's from
// then on, also if that fails.
func newRun(ctx context.Context, conn net.Conn) (*run, error) {
	client, err := ninep.NewClient(ctx, conn, ninep.DialVersion("9P2000.L"))
	if err != nil {
		return nil, fsys.Wrap(fsys.Unavailable, "the program in the sandbox does not answer", err)
	}
	r := &run{client: client, calls: make(chan net.Conn), done: make(chan struct{})}
	r.ctx, r.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	if err := r.begin(ctx); err != nil {
		r.cancel(err)
		client.Close()
		return nil, fsys.Wrap(fsys.Unavailable, "the program in the sandbox", err)
	}
	r.spawn(r.watch)
	r.spawn(r.listen)
	return r, nil
}

func (r *run) begin(ctx context.Context) error {
	root, err := r.client.Attach(ctx, "agent9", "?stream=plain")
	if err != nil {
		return err
	}
	r.root = root
	text, err := r.readSmall(ctx, "info")
	if err != nil {
		return err
	}
	var id Identity
	if err := json.Unmarshal(text, &id); err != nil {
		return fsys.E(fsys.Unavailable, "sent a malformed greeting")
	}
	if id.Protocol != Protocol {
		return fsys.E(fsys.Unavailable, fmt.Sprintf("has another version (it speaks protocol %d, this daemon %d): install the a9 that came with this agentd", id.Protocol, Protocol))
	}
	r.where, r.seesOOM = id.Where, id.SeesOOM
	return nil
}

// watch ends the run with its connection.
func (r *run) watch() {
	<-r.client.Done()
	r.cancel(r.lastWords())
	close(r.done)
}

// lastWords are what the driver says of the connection's end, if it does.
func (r *run) lastWords() error {
	var lost, cause *fsys.Error
	if errors.As(r.client.Err(), &lost) && errors.As(lost.Err, &cause) {
		return cause
	}
	return fsys.E(fsys.Unavailable, "the sandbox ended")
}

// end ends the run because of why, unless it has ended.
func (r *run) end(why error) { r.cancel(why) }

// spawn begins a task of the run, which ends with it at the latest; false if
// that has been closed.
func (r *run) spawn(task func()) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.tasks.Go(task)
	}
	return !r.closed
}

// close hangs up and waits until nothing of the run is left.
func (r *run) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.client.Close()
	r.tasks.Wait()
}

// why says why the run has ended.
func (r *run) why() error { return context.Cause(r.ctx) }

// explain says of an error that the end of the run brought about why it
// ended.
func (r *run) explain(err error) error {
	if err == nil {
		return nil
	}
	select {
	case <-r.client.Done():
	default:
		return err
	}
	<-r.done
	return r.why()
}

// maxSmall bounds what is read at once of what the box says.
const maxSmall = 64 << 10

// readSmall reads all of a file that is small.
func (r *run) readSmall(ctx context.Context, path string) ([]byte, error) {
	h, err := r.root.OpenPath(ctx, path, fsys.Read)
	if err != nil {
		return nil, err
	}
	defer r.release(ctx, h)
	return readAll(ctx, h)
}

func readAll(ctx context.Context, h fsys.Handle) ([]byte, error) {
	b := make([]byte, maxSmall)
	for n := 0; ; {
		m, err := fsys.ReadAt(ctx, h, b[n:], int64(n))
		n += m
		switch {
		case fsys.IsEOF(err) || err == nil && m == 0:
			return b[:n], nil
		case err != nil:
			return nil, err
		case n == len(b):
			return nil, fsys.E(fsys.Unavailable, "the answer is too long")
		}
	}
}

// converse writes req to the Message file at path and returns the first of
// the reply.
func (r *run) converse(ctx context.Context, path string, req []byte) (string, error) {
	h, err := r.root.OpenPath(ctx, path, fsys.Read|fsys.Write)
	if err != nil {
		return "", err
	}
	defer r.release(ctx, h)
	if _, err := fsys.WriteAt(ctx, h, req, 0); err != nil {
		return "", err
	}
	reply := make([]byte, 64)
	n, err := fsys.ReadAt(ctx, h, reply, 0)
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(reply[:n])), nil
}

// release closes h, and waits for that no longer than ctx: a box that does not
// answer keeps what waits until it is hung up on.
func (r *run) release(ctx context.Context, h fsys.Handle) {
	closed := make(chan struct{})
	go func() { // ends with the connection at the latest
		h.Close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-ctx.Done():
	}
}
