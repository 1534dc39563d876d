package containers

import (
	"context"
	"io"

	"agent9/fsys"
	"agent9/providers/sandboxes"
	"agent9/store"
)

// snapshot copies the workspace of w, which runs, to one that persists as name,
// with all that a tar archive keeps. A later session that asks for the
// workspace begins with it.
func (w *session) snapshot(ctx context.Context, name string) error {
	if err := checkWorkspace(name); err != nil {
		return err
	}
	if r := w.Record(); r.State != Running {
		return errNotReady
	}
	err := w.s.st.Update(ctx, func(tx store.Store) error { return w.s.takeWorkspace(ctx, tx, w.plan, name, w.N) })
	if err != nil {
		return err
	}
	defer w.s.st.Update(context.WithoutCancel(ctx), func(tx store.Store) error {
		return w.s.giveWorkspace(ctx, tx, w.plan.runner.ID(), name, w.N, "")
	})
	if err := w.s.freeWorkspace(ctx, w.plan.runner, name); err != nil {
		return err
	}
	spec := sandboxes.Spec{
		Name: SandboxName(w.s.config.Owner, w.N) + ofSnapshot, Agent: w.s.config.Owner, Image: w.plan.image,
		Limits: w.plan.spec, Workspace: w.s.workspaceID(name),
	}
	spec.Limits.Network = false
	to, err := w.plan.runner.Create(ctx, w.Holds()[0], spec, nil)
	if err != nil {
		return err
	}
	err = w.copyTo(ctx, to)
	undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	if failed := to.Remove(undo); err == nil {
		err = failed
	}
	return err
}

// copyTo replaces what the workspace of to has with what w's has.
func (w *session) copyTo(ctx context.Context, to *sandboxes.Box) error {
	w.mu.Lock()
	from := w.box
	w.mu.Unlock()
	if from == nil {
		return errNotReady
	}
	clear := `for f in * .[!.]* ..?*; do [ "$f" = skills ] || rm -rf -- "$f"; done`
	if err := quietly(ctx, to, []string{"sh", "-c", clear}, nil, nil); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r, out := io.Pipe()
	stop := context.AfterFunc(ctx, func() { r.CloseWithError(context.Cause(ctx)) })
	defer stop()
	packed := make(chan error, 1)
	go func() { // ends when tar does, or who unpacks
		err := quietly(ctx, from, []string{"tar", "-c", "-f", "-", "--exclude", "./skills", "."}, nil, out)
		out.CloseWithError(err)
		packed <- err
	}()
	err := quietly(ctx, to, []string{"tar", "-x", "-f", "-"}, r, nil)
	if err != nil {
		cancel(err)
		r.Close()
	} else {
		io.Copy(io.Discard, r) // tar fills up its last block, which nobody needs
	}
	if failed := <-packed; err == nil {
		err = failed
	}
	return err
}

// quietly runs a program of ours in a box, in its workspace.
func quietly(ctx context.Context, box *sandboxes.Box, argv []string, in io.Reader, out io.Writer) error {
	var said []byte
	exit, err := box.Exec(ctx, sandboxes.Command{Argv: argv}, sandboxes.Streams{Stdin: in, Out: func(fd int, p []byte) error {
		if fd != stderr && out != nil {
			_, err := out.Write(p)
			return err
		}
		said = append(said, p[:min(len(p), 1<<10-len(said))]...)
		return nil
	}})
	switch {
	case err != nil:
		return err
	case exit.Code == 127:
		return fsys.E(fsys.Unsupported, "a snapshot needs "+argv[0]+" in the image, and there is none")
	case exit.Code != 0:
		return fsys.E(fsys.Unavailable, "the snapshot failed: "+argv[0]+" said: "+string(said))
	}
	return nil
}
