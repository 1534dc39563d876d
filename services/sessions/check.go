package sessions

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"agent9/services/internal/work"
	"agent9/store"
	"agent9/store/check"
)

const noun = "session"

// Check finds what is wrong with the sessions in st.
func Check(ctx context.Context, st store.Updater, r *check.Report) error {
	recs, err := check.Records[record](ctx, st, r, recPrefix, noun)
	if err != nil {
		return err
	}
	want := map[string]map[string][]byte{listPrefix: {}, workPrefix: {}, idlePrefix: {}, work.EndedPrefix: {}}
	var should totals
	most := int64(0)
	for _, key := range slices.Sorted(maps.Keys(recs)) {
		rec := recs[key]
		var ok bool
		if rec.Number, ok = work.CheckNumber(r, noun, recPrefix, key, rec.Number); !ok {
			delete(recs, key)
			continue
		}
		most = max(most, rec.Number)
		should.count(&rec, 1)
		for key := range rec.index() {
			prefix, _, _ := strings.Cut(key, "/")
			want[prefix+"/"][key] = []byte{}
		}
		if err := checkOne(ctx, st, r, rec); err != nil {
			return err
		}
	}
	for prefix, what := range map[string]string{
		listPrefix: "the list of sessions", workPrefix: "the index of sessions with something to do",
		idlePrefix: "the index of sessions that will end by themselves", work.EndedPrefix: "the index of sessions that have ended",
	} {
		if err := (check.Index{Prefix: prefix, What: what, Of: noun, Want: want[prefix]}).Check(ctx, st, r); err != nil {
			return err
		}
	}
	for _, prefix := range []string{queuePref, shownPrefix, streamPrefix, saidPrefix} {
		err := check.Strays(ctx, st, r, prefix, "data", func(key string) (string, bool) {
			no := check.Part(key, prefix)
			_, ok := recs[recPrefix+no]
			return noun + " " + no, ok
		})
		if err != nil {
			return err
		}
	}
	if t, ok, err := check.Record[totals](ctx, st, r, totalsKey, "the sums over all sessions"); err != nil {
		return err
	} else if ok && t != should {
		r.Mend(fmt.Sprintf("%d open sessions and %d bytes of ended ones are counted, and there are %d and %d", t.Open, t.Kept, should.Open, should.Kept),
			"counts them again", check.PutJSON(st, totalsKey, should))
	}
	return work.CheckNext(ctx, st, r, noun, nextKey, most)
}

// checkOne checks what was said in a session, and what waits there.
func checkOne(ctx context.Context, st store.Updater, r *check.Report, rec record) error {
	if _, err := check.Log(ctx, store.Sub(st, streamView(rec.Number)), r, fmt.Sprintf("the stream of session %d", rec.Number), nil); err != nil {
		return err
	}
	lines := int64(0)
	whole, err := check.Log(ctx, store.Sub(st, transcriptView(rec.Number)), r, fmt.Sprintf("the transcript of session %d", rec.Number), func(line []byte) error {
		lines++
		return check.IsJSON(line)
	})
	if err != nil {
		return err
	}
	if rec.Cost < 0 || rec.Size < 0 || rec.Lines < 0 || rec.Prompts < 0 {
		r.Lost(fmt.Sprintf("session %d has less than no money, bytes or prompts", rec.Number), check.FromBackup)
	}
	now := rec
	now.Waiting, now.Queued = 0, 0
	if whole {
		now.Lines = lines
	}
	running := rec.Running == 0
	for p, err := range store.All(ctx, st, queuePrefix(rec.Number)) {
		if err != nil {
			return err
		}
		q, ok, err := check.Record[queued](ctx, st, r, p.Key, fmt.Sprintf("a prompt that waits in session %d", rec.Number))
		if err != nil || !ok {
			return err
		}
		now.Prompts = max(now.Prompts, q.Prompt)
		if q.Prompt == rec.Running {
			running = true
			continue
		}
		now.Waiting++
		now.Queued += int64(len(p.Value))
	}
	if !running {
		r.Lost(fmt.Sprintf("session %d answers prompt %d, which is not there", rec.Number, rec.Running), check.FromBackup)
	}
	if now.Waiting != rec.Waiting || now.Queued != rec.Queued || now.Lines != rec.Lines || now.Prompts != rec.Prompts {
		r.Mend(fmt.Sprintf("the record of session %d has %d lines and %d prompts that wait (%d bytes), and there are %d and %d (%d bytes)",
			rec.Number, rec.Lines, rec.Waiting, rec.Queued, now.Lines, now.Waiting, now.Queued), "counts them again",
			func(ctx context.Context) error {
				return st.Update(ctx, func(tx store.Store) error { return put(ctx, tx, &rec, &now) })
			})
	}
	return nil
}
