package compute

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"agent9/services/internal/work"
	"agent9/store"
	"agent9/store/check"
)

// Check finds what is wrong with the jobs in st.
func Check(ctx context.Context, st store.Updater, r *check.Report) error {
	recs, err := check.Records[record](ctx, st, r, recPrefix, noun)
	if err != nil {
		return err
	}
	var works []work.Standing
	for _, key := range slices.Sorted(maps.Keys(recs)) {
		rec := recs[key]
		var ok bool
		if rec.Number, ok = work.CheckNumber(r, noun, recPrefix, key, rec.Number); !ok {
			delete(recs, key)
			continue
		}
		if rec.Held < 0 || rec.Cost < 0 || rec.Paid < 0 || rec.Most != nil && *rec.Most < 0 || rec.Size < 0 {
			r.Lost(fmt.Sprintf("job %d has less than no money or bytes", rec.Number), check.FromBackup)
		}
		if !slices.Contains([]State{Awaiting, Queued, Running, Done, Failed, Cancelled}, rec.State) {
			r.Lost(fmt.Sprintf("job %d is in no state that there is: %q", rec.Number, rec.State), check.FromBackup)
		}
		w := work.Standing{Number: rec.Number, Open: !rec.State.ended(), Ended: rec.Ended}
		if !rec.Removing {
			w.Listed = []byte(rec.Name)
		}
		works = append(works, w)
		for _, view := range []string{outputView(rec.Number), chunksView(rec.Number)} {
			if _, err := check.Log(ctx, store.Sub(st, view), r, fmt.Sprintf("the output of job %d", rec.Number), nil); err != nil {
				return err
			}
		}
		if !rec.State.ended() {
			continue
		}
		if b, err := st.Get(ctx, resultKey(rec.Number)); err != nil && !missing(err) {
			return err
		} else if int64(len(b)) != rec.Result {
			r.Lost(fmt.Sprintf("the result of job %d has %d bytes, and should have %d", rec.Number, len(b), rec.Result), check.FromBackup)
		}
	}
	if err := work.CheckWork(ctx, st, r, noun, listPrefix, openPrefix, nextKey, works); err != nil {
		return err
	}
	if err := work.CheckKeys(ctx, st, r); err != nil {
		return err
	}
	for _, prefix := range []string{reqPrefix, resPrefix, outPrefix, chunksPrefix} {
		err := check.Strays(ctx, st, r, prefix, "data", func(key string) (string, bool) {
			no := check.Part(key, prefix)
			_, ok := recs[recPrefix+no]
			return noun + " " + no, ok
		})
		if err != nil {
			return err
		}
	}
	if _, err := policies().Read(ctx, st); err != nil {
		r.Lost("the policy cannot be read: "+err.Error(), "write another one to compute/policy, or "+check.FromBackup)
	}
	return checkTotals(ctx, st, r, recs)
}

const noun = "job"

func checkTotals(ctx context.Context, st store.Updater, r *check.Report, recs map[string]record) error {
	t, ok, err := check.Record[totals](ctx, st, r, totalsKey, "the sums over all jobs")
	if err != nil || !ok {
		return err
	}
	should := totals{Jobs: map[State]int64{}}
	for _, rec := range recs {
		should.add(&rec)
	}
	should.Spent = t.Spent
	for _, err := range store.All(ctx, st, draftPref) {
		if err != nil {
			return err
		}
		should.Draft++
	}
	maps.DeleteFunc(t.Jobs, func(_ State, n int64) bool { return n == 0 })
	if t.Held != should.Held || t.Draft != should.Draft || t.Kept != should.Kept || !maps.Equal(t.Jobs, should.Jobs) {
		r.Mend(fmt.Sprintf("the sums over all jobs (%v, %d drafts, %d µ$ held, %d bytes kept) are not what the jobs come to (%v, %d, %d, %d)",
			t.Jobs, t.Draft, t.Held, t.Kept, should.Jobs, should.Draft, should.Held, should.Kept), "adds them up anew; the account has sums of its own", check.PutJSON(st, totalsKey, should))
	}
	return nil
}

// Holds returns what the jobs in st that have not ended hold of the account, by
// the id of the hold.
func Holds(ctx context.Context, st store.Store) (map[string]string, error) {
	holds := map[string]string{}
	for p, err := range store.All(ctx, st, recPrefix) {
		if err != nil {
			return nil, err
		}
		rec, err := store.GetJSON[record](ctx, st, p.Key)
		if err != nil || rec.State.ended() {
			continue // what cannot be read is a finding of its own
		}
		holds[rec.Hold] = fmt.Sprintf("compute job %d", rec.Number)
	}
	return holds, nil
}
