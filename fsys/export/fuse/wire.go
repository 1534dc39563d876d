//go:build (linux && !386 && !arm && !mips && !mipsle) || darwin || freebsd

package fuse

import (
	"context"

	"agent9/fsys"
)

// What a node may do in one go that takes several steps else, as those of our
// 9P client do in one round trip. See ninep.Remote.
type (
	finder interface {
		FindInfo(ctx context.Context, names []string) (fsys.Node, fsys.Info, error)
	}
	opener interface {
		OpenInfo(ctx context.Context, names []string, ahead int) (h fsys.Handle, info fsys.Info, first []byte, err error)
	}
	lister interface {
		ListInfo(ctx context.Context) ([]fsys.Entry, error)
	}
)

// find walks names from n and says what is there.
func find(ctx context.Context, n fsys.Node, names ...string) (fsys.Node, fsys.Info, error) {
	if f, ok := n.(finder); ok {
		return f.FindInfo(ctx, names)
	}
	for _, name := range names {
		var err error
		if n, err = fsys.Walk(ctx, n, name); err != nil {
			return nil, fsys.Info{}, err
		}
	}
	info, err := n.Stat(ctx)
	return n, info, err
}

// openFile walks names from n, opens for reading what is there, says what it
// is, and may return up to ahead bytes of its beginning.
func openFile(ctx context.Context, n fsys.Node, names []string, ahead int) (fsys.Handle, fsys.Info, []byte, error) {
	if o, ok := n.(opener); ok {
		return o.OpenInfo(ctx, names, ahead)
	}
	n, info, err := find(ctx, n, names...)
	if err != nil {
		return nil, info, nil, err
	}
	h, err := n.Open(ctx, fsys.Read)
	return h, info, nil, err
}

// list returns the entries of n that a mount shows, with what they are if that
// costs nothing more: the server of a node of our 9P client has left the others
// out.
func list(ctx context.Context, n fsys.Node) ([]fsys.Entry, error) {
	if l, ok := n.(lister); ok {
		return l.ListInfo(ctx)
	}
	return fsys.ListSafe(ctx, n)
}
