package secrets

import (
	"context"
	"fmt"

	"agent9/fsys"
	"agent9/store"
	"agent9/store/check"
)

// Check finds out whether the secrets of agent in st can be read, and, with a
// box, opened. box may be nil.
func Check(ctx context.Context, st store.Updater, r *check.Report, box Sealer, agent string) error {
	recs, err := check.Records[record](ctx, st, r, "", "secret")
	if err != nil || box == nil {
		return err
	}
	for name := range recs {
		value, err := open(ctx, st, box, agent, name)
		clear(value)
		if err != nil {
			r.Lost(fmt.Sprintf("the secret %s cannot be opened: %s", name, fsys.ReasonOf(err)), "write it again, or "+check.FromBackup)
		}
	}
	return nil
}
