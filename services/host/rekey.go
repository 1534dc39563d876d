package host

import (
	"context"
	"encoding/json"

	"agent9/fsys"
	"agent9/services/agent"
	"agent9/services/identity"
	"agent9/store"
)

// Rekey seals the keys and secrets of all agents in st, which nobody else has
// open, in another ring, in one transaction: all of them or none. It returns
// how many agents there are.
func Rekey(ctx context.Context, st store.Updater, from *identity.KeyRing, to *identity.Fresh) (n int, err error) {
	err = st.Update(ctx, func(tx store.Store) error {
		for pair, err := range store.All(ctx, tx, agentsPart) {
			if err != nil {
				return err
			}
			name := pair.Key[len(agentsPart):]
			var e entry
			if err := json.Unmarshal(pair.Value, &e); err != nil {
				return fsys.Wrap(fsys.Internal, "the index entry of agent "+name, err)
			}
			if err := agent.Reseal(ctx, store.Part(tx, e.part()), name, from, to.KeyRing); err != nil {
				return fsys.Wrap(fsys.Internal, "agent "+name, err)
			}
			n++
		}
		return to.Put(ctx, store.Part(tx, KeyRingPart))
	})
	return n, err
}
