package sandboxes

import (
	"context"

	"agent9/fsys"
)

// A Rester is a Sandbox whose workspace can be read while nothing runs in it.
type Rester interface {
	Sandbox
	// Rest returns /workspace as it is, and what is called when done with it.
	// There are no symbolic links: one is followed if it stays inside. What is
	// open then can still be read. Unsupported: only a run shows it.
	Rest(ctx context.Context) (workspace fsys.Node, done func(), err error)
}

// Rest is that of a [Rester], and else Unsupported.
func (b *Box) Rest(ctx context.Context) (workspace fsys.Node, done func(), err error) {
	if r, ok := b.sandbox.(Rester); ok {
		return r.Rest(ctx)
	}
	return nil, nil, fsys.E(fsys.Unsupported, "the files of this sandbox can be read only while it runs")
}
