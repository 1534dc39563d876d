// Package fsys defines the file tree that every other package serves, mounts
// or exports. It imports only the standard library and knows no protocol.
//
//	FileService ── Root() ──► Node ── Open() ──► Handle
//	                           │                   ├─ Reader  ReadAt
//	                           ├─ Dir       Walk   ├─ Writer  WriteAt
//	                           │                   └─ Syncer  Sync
//	                           ├─ Creator   Create
//	                           ├─ Maker     Mkdir
//	                           ├─ Renamer   Rename
//	                           ├─ Remover   Remove
//	                           ├─ Truncater Truncate
//	                           ├─ AttrSetter SetAttr
//	                           └─ Taker     Takes
//
// The three types on the top line are the whole contract. Everything below a
// branch is optional; never assert for it, call the helper of the same name
// ([Walk], [ReadAt], [Truncate] ...), which reports the right [Code] when the
// value lacks it. That rule is what lets a wrapper stand in for any node.
//
// Ready-made nodes: [Table] is a directory written down as data, [Text] a
// snapshot, [Doc] a document that is validated as it is written, [Call] and
// [Ctl] are files that act on a write, [Tape] is a stream.
package fsys

import (
	"context"
	"io/fs"
	"time"
)

// A FileService is a tree of files that can be mounted in a namespace.
type FileService interface {
	// Root returns the top of the tree. It does no work and cannot fail;
	// work and errors belong to the nodes.
	Root() Node
}

// A Node is a file or directory that has been walked to but not opened.
// Nodes are safe for concurrent use and need not be closed.
type Node interface {
	Stat(ctx context.Context) (Info, error)
	// Open returns a handle for what flag says. The values of ctx (who asks,
	// who pays) hold for the life of the handle, its cancellation only for
	// the call.
	Open(ctx context.Context, flag Flag) (Handle, error)
}

// A Handle is an open Node. Its reads and writes carry their own offsets, so
// one Handle may serve several requests at once.
//
// A client that ends in order is followed by Sync and then Close; one that
// hangs up only by Close. So what a handle has gathered acts in Sync, and is
// dropped by a Close alone. Close may be called more than once.
type Handle interface {
	Close() error
}

// An Entry is a name in a directory. Names belong to directories, not to
// nodes, so one node may appear under several names and in several trees.
type Entry struct {
	Name string
	Node Node
	// Info is what Node was when it was listed, from a directory that knows
	// without asking each; else nil. See [Entry.Stat].
	Info *Info
}

// Info describes a Node.
type Info struct {
	Kind   Kind
	Effect Effect
	Perm   fs.FileMode // permission bits only
	// Acts says that reading the file, or listing the directory, takes
	// something away or starts something, or that nobody can read it.
	Acts bool
	// Ended says of a Stream that nothing more will come, so that a reader
	// finds its end.
	Ended bool
	// Size is exact for a File, what can be read now for a Stream that all
	// opens share, and zero for every other Kind. It never exceeds what an
	// open that follows can read.
	Size    int64
	ModTime time.Time
	// Version counts the changes of a stored file and is zero for every
	// other one (clients cache what has a version).
	Version uint32
	// Gen tells apart files that bear the same name one after another; zero
	// where a name is never used again or always means the same file.
	Gen uint64
	// Large says of a Message file that requests and replies are of any size, and
	// are taken and given as they come: nobody need gather them in memory.
	Large bool
}

// Kind tells a front end how to treat reads and writes of a node.
type Kind uint8

const (
	File      Kind = iota // bytes with a size
	Directory             // has children
	Message               // writes make requests; a read returns the reply
	Stream                // append-only; a read at the end blocks until there is more
)

func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "unknown"
}

var kindNames = [...]string{"file", "directory", "message", "stream"}

// Effect says what a write to a file brings about. Gates decide by it.
type Effect uint8

const (
	Changes  Effect = iota // alters the tree or the world; the default
	Computes               // answers a question and alters nothing
	Signs                  // uses a private key to sign, and alters nothing
	Spends                 // may spend money
)

// Flag says what an Open or Create is for.
type Flag uint8

const (
	Read   Flag = 1 << iota
	Write       // also needed with Trunc and Append
	Trunc       // empty the file first
	Append      // every write goes to the end, whatever its offset
	Excl        // Create only: fail if the name exists
)

// Optional parts of a Node.
type (
	// A Dir is a directory. Walk takes one name, never ".", ".." or a path,
	// and is a keyed look-up. List returns every entry, in the order in which
	// they should be shown.
	Dir interface {
		Node
		Walk(ctx context.Context, name string) (Node, error)
		List(ctx context.Context) ([]Entry, error)
	}
	// A Creator makes and opens a file that does not exist yet, else Exist.
	Creator interface {
		Dir
		Create(ctx context.Context, name string, perm fs.FileMode, flag Flag) (Node, Handle, error)
	}
	// A Maker makes a directory that does not exist yet, else Exist.
	Maker interface {
		Dir
		Mkdir(ctx context.Context, name string, perm fs.FileMode) (Node, error)
	}
	// A Renamer gives an entry another name in the same directory and
	// replaces what bore it, as rename(2) does.
	Renamer interface {
		Dir
		Rename(ctx context.Context, name, newName string) error
	}
	Remover interface {
		Node
		Remove(ctx context.Context) error
	}
	Truncater interface {
		Node
		Truncate(ctx context.Context, size int64) error
	}
	AttrSetter interface {
		Node
		SetAttr(ctx context.Context, set Attr) error
	}
	// A Taker may be a file from which a read takes away what it gives, so
	// that a caller with only the right to read must not open it.
	Taker interface {
		Node
		Takes() bool
	}
)

// Attr is what SetAttr changes; nil leaves an attribute as it is.
type Attr struct {
	Perm    *fs.FileMode
	ModTime *time.Time
}

// Optional parts of a Handle.
type (
	// ReadAt reads up to len(p) bytes at off. At the end it returns io.EOF,
	// or 0 and nil. A short read is not an end.
	Reader interface {
		Handle
		ReadAt(ctx context.Context, p []byte, off int64) (int, error)
	}
	// WriteAt writes p at off. n < len(p) comes with an error.
	Writer interface {
		Handle
		WriteAt(ctx context.Context, p []byte, off int64) (int, error)
	}
	// Sync says that what was written so far is whole (fsync, FUSE flush, and
	// before the Close of a client that ends in order): it is acted upon and
	// durable when Sync returns.
	Syncer interface {
		Handle
		Sync(ctx context.Context) error
	}
)
