package compute

import (
	"context"
	"fmt"
	"slices"

	"agent9/store"
	"agent9/store/check"
)

// Check finds what is wrong with the jobs in st.
func Check(ctx context.Context, st store.Updater, r *check.Report) error {
	if _, err := policies().Read(ctx, st); err != nil {
		r.Lost("the policy cannot be read: "+err.Error(), "write another one to compute/policy, or "+check.FromBackup)
	}
	return table.Check(ctx, st, r, func(n int64, rec *record) error { return checkJob(ctx, st, r, n, rec) })
}

func checkJob(ctx context.Context, st store.Updater, r *check.Report, n int64, rec *record) error {
	if rec.Held < 0 || rec.Cost < 0 || rec.Paid < 0 || rec.Most != nil && *rec.Most < 0 || rec.Size < 0 {
		r.Lost(fmt.Sprintf("job %d has less than no money or bytes", n), check.FromBackup)
	}
	if !slices.Contains([]State{Awaiting, Queued, Running, Done, Failed, Cancelled}, rec.State) {
		r.Lost(fmt.Sprintf("job %d is in no state that there is: %q", n, rec.State), check.FromBackup)
	}
	for _, view := range []string{outputView(n), chunksView(n)} {
		if _, err := check.Log(ctx, store.Sub(st, view), r, fmt.Sprintf("the output of job %d", n), nil); err != nil {
			return err
		}
	}
	if !rec.State.ended() {
		return nil
	}
	b, err := st.Get(ctx, resultKey(n))
	if err != nil && !missing(err) {
		return err
	}
	if int64(len(b)) != rec.Result {
		r.Lost(fmt.Sprintf("the result of job %d has %d bytes, and should have %d", n, len(b), rec.Result), check.FromBackup)
	}
	return nil
}
