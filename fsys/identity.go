package fsys

import (
	"context"
	"strings"
)

// An ID says which file a node is, in whatever tree it is seen and under
// whatever name: equal IDs are one file. The zero ID is none.
type ID struct {
	In   any    // what the file belongs to, and is alive as long as that is; comparable
	Path string // of the file in it
}

// An Identifier is a Node that may know which file it is.
type Identifier interface {
	Node
	ID() ID
}

// IDOf returns which file n is, or the zero ID if n does not know.
func IDOf(n Node) ID {
	if n, ok := n.(Identifier); ok {
		return n.ID()
	}
	return ID{}
}

// Below returns which file bears name in the directory id: what that says, if
// it knows, else the path to it.
func (id ID) Below(name string, n Node) ID {
	if own := IDOf(n); own != (ID{}) || id == (ID{}) {
		return own
	}
	return ID{id.In, id.Path + "/" + name}
}

// WalkID walks each element of a slash-separated path from n, which is id, and
// says which file it has come to.
func WalkID(ctx context.Context, n Node, id ID, path string) (Node, ID, error) {
	for name := range strings.SplitSeq(path, "/") {
		if name == "" || name == "." {
			continue
		}
		next, err := Walk(ctx, n, name)
		if err != nil {
			return nil, ID{}, err
		}
		n, id = next, id.Below(name, next)
	}
	return n, id, nil
}
