package sandboxes

import (
	"context"
	"net"
	"sync"

	"agent9/fsys"
)

// A Box is a sandbox that can be used, while it runs: commands, files and the
// programs inside that call. It is safe for concurrent use, and every method
// ends with its ctx, whatever the other side does: what is in a sandbox is not
// trusted, and neither is the box that speaks for it.
type Box struct {
	sandbox Sandbox

	turn fsys.Mutex // held while a run begins or ends

	mu  sync.Mutex
	run *run // the last one, nil before
	// oomKills is how many Usage had when a command was last blamed for one.
	oomKills int64
	counted  bool // oomKills is known
}

func newBox(s Sandbox) *Box { return &Box{sandbox: s} }

// ID is Sandbox.ID.
func (b *Box) ID() string { return b.sandbox.ID() }

// Start runs the sandbox again after it ended, or for the first time after
// Runner.Open. Starting what runs does nothing.
func (b *Box) Start(ctx context.Context) error {
	if err := b.turn.Lock(ctx); err != nil {
		return err
	}
	defer b.turn.Unlock()
	if r := b.current(); r != nil {
		select {
		case <-r.done:
			r.close()
		default:
			return nil
		}
	}
	if err := b.countOOMKills(ctx); err != nil {
		return err
	}
	conn, err := b.sandbox.Start(ctx)
	if err != nil {
		return err
	}
	r, err := newRun(ctx, conn)
	if err != nil {
		undo, cancel := afterwards(ctx)
		defer cancel()
		b.sandbox.Stop(undo) // the connection is closed, which ends it too
		return err
	}
	b.mu.Lock()
	b.run = r
	b.mu.Unlock()
	return nil
}

// countOOMKills finds out how many there were before this Box, so that no
// command of its is blamed for them.
func (b *Box) countOOMKills(ctx context.Context) error {
	b.mu.Lock()
	counted := b.counted
	b.mu.Unlock()
	if counted {
		return nil
	}
	usage, err := b.sandbox.Usage(ctx)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.oomKills, b.counted = usage.OOMKills, true
	return nil
}

func (b *Box) current() *run {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.run
}

// running returns the run, or why there is none.
func (b *Box) running() (*run, error) {
	r := b.current()
	if r == nil {
		return nil, fsys.E(fsys.Busy, "the sandbox is not running")
	}
	select {
	case <-r.done:
		return nil, r.why()
	default:
		return r, nil
	}
}

// Running reports whether the sandbox runs.
func (b *Box) Running() bool {
	_, err := b.running()
	return err == nil
}

var ended = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Done is closed when the run has ended, by Stop or by itself; it is closed
// while nothing runs.
func (b *Box) Done() <-chan struct{} {
	if r := b.current(); r != nil {
		return r.done
	}
	return ended
}

// Err says why the run ended: Canceled after Stop or Remove, Unavailable if it
// did by itself. It is nil while it runs.
func (b *Box) Err() error {
	_, err := b.running()
	return err
}

// Where says where things are inside, of the last run.
func (b *Box) Where() Where {
	if r := b.current(); r != nil {
		return r.where
	}
	return Where{}
}

// Files returns the sandbox's own file tree, from Where().Root on. What is
// walked to is usable until the run ends. There are no symbolic links: one is
// followed, inside the sandbox, and what it leads to is in its place.
func (b *Box) Files(ctx context.Context) (fsys.Node, error) {
	r, err := b.running()
	if err != nil {
		return nil, err
	}
	n, err := r.root.Walk(ctx, "files")
	return n, r.explain(err)
}

// Accept waits for a program in the sandbox that dials the agent's socket, and
// returns the connection to it. Programs wait until they are accepted.
func (b *Box) Accept(ctx context.Context) (net.Conn, error) {
	r, err := b.running()
	if err != nil {
		return nil, err
	}
	select {
	case conn := <-r.calls:
		return conn, nil
	case <-r.done:
		return nil, r.why()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Stop ends the run and every process in the sandbox.
func (b *Box) Stop(ctx context.Context) error {
	return b.hangUp(ctx, "the sandbox was stopped", b.sandbox.Stop)
}

// Remove stops the sandbox and removes all of it, but not a workspace that
// persists.
func (b *Box) Remove(ctx context.Context) error {
	return b.hangUp(ctx, "the sandbox was removed", b.sandbox.Remove)
}

// hangUp ends the run, if there is one, and then does what ends the sandbox.
func (b *Box) hangUp(ctx context.Context, why string, end func(context.Context) error) error {
	if err := b.turn.Lock(ctx); err != nil {
		return err
	}
	defer b.turn.Unlock()
	if r := b.current(); r != nil {
		r.end(fsys.E(fsys.Canceled, why))
		r.close()
	}
	return end(ctx)
}

// Usage is Sandbox.Usage.
func (b *Box) Usage(ctx context.Context) (Usage, error) { return b.sandbox.Usage(ctx) }
