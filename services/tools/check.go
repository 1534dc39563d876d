package tools

import (
	"context"

	"agent9/store"
)

// Holds returns what the calls in st that have not ended hold of the account,
// by the id of the hold.
func Holds(ctx context.Context, st store.Store) (map[string]string, error) {
	holds := map[string]string{}
	for p, err := range store.All(ctx, st, "") {
		if err != nil {
			return nil, err
		}
		holds[p.Key] = "a call of a tool"
	}
	return holds, nil
}
