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
		if rec.Held < 0 || rec.Cost < 0 || rec.Price.Once < 0 || rec.Size < 0 {
			r.Lost(fmt.Sprintf("session %d has less than no money or bytes", rec.Number), check.FromBackup)
		}
		w := work.Standing{Number: rec.Number, Open: !rec.State.ended(), Ended: rec.Ended}
		if !rec.Removing {
			w.Listed = []byte{}
		}
		works = append(works, w)
		if err := checkRecording(ctx, store.Sub(st, outputView(rec.Number)), r, fmt.Sprintf("the output of session %d", rec.Number)); err != nil {
			return err
		}
		if err := checkExecs(ctx, st, r, rec); err != nil {
			return err
		}
	}
	if err := work.CheckWork(ctx, st, r, noun, listPrefix, openPrefix, nextKey, works); err != nil {
		return err
	}
	if err := work.CheckKeys(ctx, st, r); err != nil {
		return err
	}
	for _, prefix := range []string{reqPrefix, outPrefix, execPrefix} {
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
		r.Lost("the policy cannot be read: "+err.Error(), "write another one to containers/policy, or "+check.FromBackup)
	}
	spaces, err := check.Records[workspace](ctx, st, r, workPrefix, "workspace")
	if err != nil {
		return err
	}
	return checkTotals(ctx, st, r, recs, len(spaces))
}

const noun = "session"

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
	execs, err := check.Records[execRecord](ctx, st, r, part+recPrefix, what)
	if err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(execs)) {
		x := execs[key]
		var ok bool
		if x.Number, ok = work.CheckNumber(r, what, part+recPrefix, key, x.Number); !ok {
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
			r.Mend(fmt.Sprintf("session %d has had %d execs, and there is exec %d", rec.Number, rec.Execs, x.Number), "counts on from there", check.PutJSON(st, recordKey(rec.Number), more))
		}
		if err := checkRecording(ctx, store.Sub(st, execView(rec.Number, x.Number)), r, fmt.Sprintf("the output of exec %d of session %d", x.Number, rec.Number)); err != nil {
			return err
		}
	}
	return check.Strays(ctx, st, r, part+outPrefix, "output", func(key string) (string, bool) {
		no := check.Part(key, part+outPrefix)
		_, ok := execs[part+recPrefix+no]
		return fmt.Sprintf("exec %s of session %d", no, rec.Number), ok
	})
}

func checkTotals(ctx context.Context, st store.Updater, r *check.Report, recs map[string]record, spaces int) error {
	t, ok, err := check.Record[totals](ctx, st, r, totalsKey, "the sums over all sessions")
	if err != nil || !ok {
		return err
	}
	should := totals{Sessions: map[State]int64{}, Works: spaces}
	for _, rec := range recs {
		should.add(&rec)
	}
	should.Spent = t.Spent
	maps.DeleteFunc(t.Sessions, func(_ State, n int64) bool { return n == 0 })
	if t.Held != should.Held || t.Works != should.Works || t.Kept != should.Kept || t.Ended != should.Ended || !maps.Equal(t.Sessions, should.Sessions) {
		r.Mend(fmt.Sprintf("the sums over all sessions (%v, %d workspaces, %d µ$ held, %d bytes kept) are not what the sessions come to (%v, %d, %d, %d)",
			t.Sessions, t.Works, t.Held, t.Kept, should.Sessions, should.Works, should.Held, should.Kept), "adds them up anew; the account has sums of its own", check.PutJSON(st, totalsKey, should))
	}
	return nil
}

// Holds returns what the sessions in st that have not ended hold of the
// account, by the id of the hold.
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
		for _, id := range rec.Holds {
			holds[id] = fmt.Sprintf("sandbox session %d", rec.Number)
		}
	}
	return holds, nil
}
