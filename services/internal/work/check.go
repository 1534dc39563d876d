package work

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"agent9/store"
	"agent9/store/check"
)

// CheckWork checks the indexes of works, which are below list and open, and of
// what has ended, and that next is the greatest number. noun is what one is
// called.
func CheckWork(ctx context.Context, st store.Updater, r *check.Report, noun, list, open, next string, works []Standing) error {
	listed := check.Index{Prefix: list, What: "the list of " + noun + "s", Of: noun, Want: map[string][]byte{}}
	opened := check.Index{Prefix: open, What: "the index of " + noun + "s that have not ended", Of: noun, Want: map[string][]byte{}}
	ended := check.Index{Prefix: EndedPrefix, What: "the index of " + noun + "s that have ended", Of: noun, Want: map[string][]byte{}}
	most := int64(0)
	for _, w := range works {
		most = max(most, w.Number)
		if w.Listed != nil {
			listed.Want[list+Padded(w.Number)] = w.Listed
		}
		if w.Open {
			opened.Want[open+Padded(w.Number)] = []byte{}
		} else {
			ended.Want[EndedKey(w.Ended, w.Number)] = []byte{}
		}
	}
	for _, x := range []check.Index{listed, opened, ended} {
		if err := x.Check(ctx, st, r); err != nil {
			return err
		}
	}
	return CheckNext(ctx, st, r, noun, next, most)
}

// CheckNumber returns the number of the record at key, which is what is behind
// prefix there, and adds to r if the record says that it is another one; not ok
// if there is none.
func CheckNumber(r *check.Report, noun, prefix, key string, says int64) (n int64, ok bool) {
	n, err := strconv.ParseInt(key[len(prefix):], 10, 64)
	switch {
	case err != nil || key != prefix+Padded(n):
		r.Lost(fmt.Sprintf("there is a record of a %s called %q, which is no number", noun, key), check.FromBackup)
		return 0, false
	case n != says:
		r.Lost(fmt.Sprintf("the record of %s %d says that it is of %s %d", noun, n, noun, says), check.FromBackup)
	}
	return n, true
}

// CheckNext checks that the count at key has got as far as most.
func CheckNext(ctx context.Context, st store.Updater, r *check.Report, noun, key string, most int64) error {
	last, ok, err := check.Record[int64](ctx, st, r, key, "the number of the latest "+noun)
	if err == nil && ok && last < most {
		r.Mend(fmt.Sprintf("the latest %s is counted as %d, and there is %s %d: the next one would take its number", noun, last, noun, most),
			"counts on from there", check.PutJSON(st, key, most))
	}
	return err
}

// CheckKeys checks what idempotency keys stand for.
func CheckKeys(ctx context.Context, st store.Updater, r *check.Report) error {
	all, err := check.Records[Key](ctx, st, r, keyPrefix, "idempotency key")
	if err != nil {
		return err
	}
	expires := map[string]bool{}
	for p, err := range store.All(ctx, st, expiryPrefix) {
		if err != nil {
			return err
		}
		ms, key, _ := strings.Cut(p.Key[len(expiryPrefix):], "/")
		if _, err := strconv.ParseInt(ms, 10, 64); err != nil {
			r.Mend(fmt.Sprintf("the time at which the idempotency key %s expires cannot be read", key), "takes it away", check.Delete(st, p.Key))
			continue
		}
		expires[key] = true
	}
	for _, k := range slices.Sorted(maps.Keys(all)) {
		key := k[len(keyPrefix):]
		if !expires[key] {
			r.Mend(fmt.Sprintf("the idempotency key %s never expires", key), "notes when it does", check.Put(st, expiryKey(all[k].Expires, key), nil))
		}
	}
	return nil
}
