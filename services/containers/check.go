package containers

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"agent9/services/internal/work"
	"agent9/store"
	"agent9/store/check"
)

// Check finds what is wrong with the sessions in st. What sandboxes there are is
// not asked.
func Check(ctx context.Context, st store.Updater, r *check.Report) error {
	if _, err := policies().Read(ctx, st); err != nil {
		r.Lost("the policy cannot be read: "+err.Error(), "write another one to containers/policy, or "+check.FromBackup)
	}
	if _, err := check.Records[workspace](ctx, st, r, workPrefix, "workspace"); err != nil {
		return err
	}
	return table.Check(ctx, st, r, func(n int64, rec *record) error {
		rec.Number = n
		if rec.Held < 0 || rec.Cost < 0 || rec.Price.Once < 0 || rec.Size < 0 {
			r.Lost(fmt.Sprintf("session %d has less than no money or bytes", n), check.FromBackup)
		}
		if err := checkRecording(ctx, store.Sub(st, outputView(n)), r, fmt.Sprintf("the output of session %d", n)); err != nil {
			return err
		}
		return checkExecs(ctx, st, r, *rec)
	})
}

// checkRecording checks the bytes of a recording, and the index of whose they
// are.
func checkRecording(ctx context.Context, st store.Updater, r *check.Report, what string) error {
	if _, err := check.Log(ctx, store.Sub(st, "b/"), r, what, nil); err != nil {
		return err
	}
	index := store.Sub(st, "i/")
	if whole, err := check.Log(ctx, index, r, "the index of "+what, nil); err != nil || !whole {
		return err
	}
	state, err := store.InspectLog(ctx, index)
	if err == nil && state.Size%entrySize != 0 {
		r.Lost(fmt.Sprintf("the index of %s ends in the middle of an entry", what), check.FromBackup)
	}
	return err
}

func checkExecs(ctx context.Context, st store.Updater, r *check.Report, rec record) error {
	part := execsPart(rec.Number)
	what := fmt.Sprintf("exec of session %d", rec.Number)
	execs, err := check.Records[execRecord](ctx, st, r, part+work.RecPrefix, what)
	if err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(execs)) {
		x := execs[key]
		var ok bool
		if x.Number, ok = work.CheckNumber(r, what, part+work.RecPrefix, key, x.Number); !ok {
			continue
		}
		if rec.State.ended() && !x.ended() {
			r.Mend(fmt.Sprintf("exec %d of session %d has not ended, and the session has", x.Number, rec.Number), "ends it", func(ctx context.Context) error {
				return st.Update(ctx, func(tx store.Store) error { return interruptExecs(ctx, tx, rec) })
			})
		}
		if x.Number > rec.Execs {
			more := rec
			more.Execs = x.Number
			r.Mend(fmt.Sprintf("session %d has had %d execs, and there is exec %d", rec.Number, rec.Execs, x.Number), "counts on from there", check.PutJSON(st, work.RecordKey(rec.Number), more))
		}
		if err := checkRecording(ctx, store.Sub(st, execView(rec.Number, x.Number)), r, fmt.Sprintf("the output of exec %d of session %d", x.Number, rec.Number)); err != nil {
			return err
		}
	}
	return check.Strays(ctx, st, r, part+outPrefix, "output", func(key string) (string, bool) {
		no := check.Part(key, part+outPrefix)
		_, ok := execs[part+work.RecPrefix+no]
		return fmt.Sprintf("exec %s of session %d", no, rec.Number), ok
	})
}
