package host

import (
	"context"
	"encoding/json"

	"agent9/services/agent"
	"agent9/store"
)

// Steps raise the store of an older daemon, version by version: the first one
// from 1 to 2. A change of what is stored that an older daemon would misread, or
// that this one cannot read in its old form, is a step here.
func Steps() []store.Step {
	return []store.Step{
		packedFiles,
		sealedRecords,
		boundSecrets,
	}
}

// sealedRecords makes nothing anew: records are sealed as they are written, and
// those that are not sealed are read. Daemons of version 2 find none that is.
func sealedRecords(context.Context, store.Store) error { return nil }

// packedFiles makes nothing anew: Stored files are packed as they change, and
// both forms are read. Daemons of version 1 read JSON only.
func packedFiles(context.Context, store.Store) error { return nil }

// boundSecrets writes into each agent's configuration who may use its secrets,
// which daemons of version 3 gave to every service that named one.
func boundSecrets(ctx context.Context, tx store.Store) error {
	var parts []string
	for p, err := range store.All(ctx, tx, agentsPart) {
		if err != nil {
			return err
		}
		var e entry
		if json.Unmarshal(p.Value, &e) == nil { // else fsck tells of it
			parts = append(parts, e.part())
		}
	}
	for _, part := range parts {
		if err := agent.BindSecrets(ctx, store.Part(tx, part)); err != nil {
			return err
		}
	}
	return nil
}
