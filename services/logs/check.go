package logs

import (
	"context"

	"agent9/store"
	"agent9/store/check"
)

// Check finds what is wrong with the logs in st.
func Check(ctx context.Context, st store.Updater, r *check.Report) error {
	for _, log := range []struct{ prefix, what string }{
		{"trajectory/", "the trajectory"}, {"ticks/", "the history of ticks"}, {"errors/", "the list of errors"},
	} {
		if _, err := check.Log(ctx, store.Sub(st, log.prefix), r, log.what, check.IsJSON); err != nil {
			return err
		}
	}
	return nil
}
