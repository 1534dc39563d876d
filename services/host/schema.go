package host

import (
	"context"

	"agent9/store"
)

// Steps raise the store of an older daemon, version by version: the first one
// from 1 to 2. A change of what is stored that an older daemon would misread, or
// that this one cannot read in its old form, is a step here.
func Steps() []store.Step {
	return []store.Step{
		packedFiles,
		sealedRecords,
	}
}

// sealedRecords makes nothing anew: records are sealed as they are written, and
// those that are not sealed are read. Daemons of version 2 find none that is.
func sealedRecords(context.Context, store.Store) error { return nil }

// packedFiles makes nothing anew: Stored files are packed as they change, and
// both forms are read. Daemons of version 1 read JSON only.
func packedFiles(context.Context, store.Store) error { return nil }
