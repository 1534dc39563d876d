package store

import (
	"context"
	"io"
)

// A Step raises what a whole database stores from one version to the next. It
// reads and writes only tx, in which it finds what the steps before it have
// made, and which is stored together with the new version, or not at all.
type Step func(ctx context.Context, tx Store) error

// A Copier is a Store that can write a copy of itself.
type Copier interface {
	// Copy writes to w what is stored at this moment, in a form that the driver
	// opens, while others go on reading and writing. w should be fast: a
	// write that makes the database larger may have to wait for it.
	Copy(ctx context.Context, w io.Writer) error
	// Verify reads through what Copy wrote, and says what is first wrong with it.
	Verify(ctx context.Context, r io.ReaderAt) error
}

// A Prober is a Store whose file has a form of its own that can be wrong.
type Prober interface {
	// Probe calls found with a sentence about each thing that is wrong below
	// the keys and values, and with the key of each record that is damaged.
	Probe(ctx context.Context, found func(key, what string)) error
}
