package work

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"agent9/fsys"
	"agent9/store"
	"agent9/store/check"
)

// Check finds what is wrong with the records in st, their indexes, idempotency
// keys, totals and other data. each looks at the rest of the record of n.
func (tb *Table[R, T]) Check(ctx context.Context, st store.Updater, r *check.Report, each func(n int64, rec *R) error) error {
	recs, err := check.Records[R](ctx, st, r, RecPrefix, tb.What)
	if err != nil {
		return err
	}
	want := map[string]map[string][]byte{ListPrefix: {}, OpenPrefix: {}, EndedPrefix: {}}
	should, most := tb.New(), int64(0)
	for _, key := range slices.Sorted(maps.Keys(recs)) {
		rec := recs[key]
		s := tb.Standing(&rec)
		var ok bool
		if s.Number, ok = CheckNumber(r, tb.What, RecPrefix, key, s.Number); !ok {
			delete(recs, key)
			continue
		}
		for k, v := range s.index() {
			prefix, _, _ := strings.Cut(k, "/")
			want[prefix+"/"][k] = v
		}
		most = max(most, s.Number)
		tb.add(&should, &rec, 1)
		if err := each(s.Number, &rec); err != nil {
			return err
		}
	}
	for _, x := range []check.Index{
		{Prefix: ListPrefix, What: "the list of " + tb.What + "s"},
		{Prefix: OpenPrefix, What: "the index of " + tb.What + "s that have not ended"},
		{Prefix: EndedPrefix, What: "the index of " + tb.What + "s that have ended"},
	} {
		x.Of, x.Want = tb.What, want[x.Prefix]
		if err := x.Check(ctx, st, r); err != nil {
			return err
		}
	}
	if err := CheckNext(ctx, st, r, tb.What, nextKey, most); err != nil {
		return err
	}
	if err := CheckKeys(ctx, st, r); err != nil {
		return err
	}
	for _, prefix := range append([]string{reqPrefix}, tb.Data...) {
		err := check.Strays(ctx, st, r, prefix, "data", func(key string) (string, bool) {
			no := check.Part(key, prefix)
			_, ok := recs[RecPrefix+no]
			return tb.What + " " + no, ok
		})
		if err != nil {
			return err
		}
	}
	return tb.checkTotals(ctx, st, r, should)
}

func (tb *Table[R, T]) checkTotals(ctx context.Context, st store.Updater, r *check.Report, should T) error {
	says, ok, err := check.Record[T](ctx, st, r, totalsKey, "the sums over all "+tb.What+"s")
	if err != nil || !ok {
		return err
	}
	if err := tb.besides(ctx, st, &should); err != nil {
		return err
	}
	tb.Sums(&should).Spent = tb.Sums(&says).Spent
	is, must := nonzero(fsys.Line(says)), nonzero(fsys.Line(should))
	if !bytes.Equal(is, must) {
		r.Mend(fmt.Sprintf("the sums over all %[1]ss (%[2]s) are not what the %[1]ss come to (%[3]s)", tb.What, is, must),
			"adds them up anew; the account has sums of its own", check.PutJSON(st, totalsKey, should))
	}
	return nil
}

// nonzero is the JSON object line without members that are 0 or empty.
func nonzero(line []byte) []byte {
	all := map[string]json.RawMessage{}
	if json.Unmarshal(line, &all) != nil {
		return bytes.TrimSpace(line)
	}
	for name, v := range all {
		if v = nonzero(v); string(v) == "0" || string(v) == "{}" || string(v) == "null" {
			delete(all, name)
		} else {
			all[name] = v
		}
	}
	if len(all) == 0 {
		return []byte("{}")
	}
	return bytes.TrimSpace(fsys.Line(all))
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
