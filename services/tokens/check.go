package tokens

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"agent9/store"
	"agent9/store/check"
)

// Check finds what is wrong with the tokens in st. exists reports whether there
// is an agent of that name.
func Check(ctx context.Context, st store.Updater, r *check.Report, exists func(agent string) bool) error {
	all, err := check.Records[Grant](ctx, st, r, byHash, "token")
	if err != nil {
		return err
	}
	agents := check.Index{Prefix: byAgent, What: "the index of agents' tokens", Of: "token", Want: map[string][]byte{}}
	times := check.Index{Prefix: byExpiry, What: "the index of when tokens expire", Of: "token", Want: map[string][]byte{}}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		g, hash := all[key], key[len(byHash):]
		if !exists(g.Agent) {
			r.Mend(fmt.Sprintf("token %s is for agent %s, which is not there", g.ID, g.Agent), "revokes it", check.Delete(st, append(indexes(g), key)...))
		}
		for i, x := range indexes(g) {
			[]check.Index{agents, times}[i].Want[x] = []byte(hash)
		}
	}
	if err := agents.Check(ctx, st, r); err != nil {
		return err
	}
	return times.Check(ctx, st, r)
}
