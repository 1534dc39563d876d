// Package check is how services say what is wrong with what is stored. A
// service has a function
//
//	Check(ctx context.Context, st store.Updater, r *check.Report) error
//
// that reads its part of a store which nobody else has open, adds what it
// finds to r, and changes nothing. Its error says that the part cannot be
// looked at.
package check

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"agent9/fsys"
	"agent9/store"
)

// A Fix mends what a finding is about, in transactions of its own. It may find
// that an earlier one has done so.
type Fix func(ctx context.Context) error

// A Finding is something wrong, in words for a person.
type Finding struct {
	Where string // whose it is, such as agents/alice/compute
	What  string
	Do    string // what Fix does, or, without one, what a person can do
	Money bool   // Fix changes what was spent or is held
	Fix   Fix    // nil: it cannot be mended without losing something
	Ends  bool   // the next start of the daemon ends what it is about
}

// A Report gathers findings.
type Report struct {
	where string
	all   *[]Finding
}

// New returns an empty report.
func New() *Report { return &Report{all: new([]Finding)} }

// At returns the report for what is at where, below r's own place.
func (r *Report) At(where string) *Report {
	if r.where != "" {
		where = r.where + "/" + where
	}
	return &Report{where, r.all}
}

// All returns what was found.
func (r *Report) All() []Finding { return *r.all }

// Lost adds what no program can mend; do is what a person can do.
func (r *Report) Lost(what, do string) {
	*r.all = append(*r.all, Finding{Where: r.where, What: what, Do: do})
}

// Ends is Lost of what the next start of the daemon puts an end to.
func (r *Report) Ends(what, do string) {
	*r.all = append(*r.all, Finding{Where: r.where, What: what, Do: do, Ends: true})
}

// Damaged adds that something could not be checked if err says that a record is
// damaged, which is a finding of its own; it returns any other error.
func (r *Report) Damaged(err error) error {
	if !errors.Is(err, store.ErrDamaged) {
		return err
	}
	r.Lost("not all of it could be checked: "+fsys.ReasonOf(err), FromBackup)
	return nil
}

// Mend adds what fix can mend without a loss; do says what it does.
func (r *Report) Mend(what, do string, fix Fix) {
	*r.all = append(*r.all, Finding{Where: r.where, What: what, Do: do, Fix: fix})
}

// Money is Mend of what changes an account.
func (r *Report) Money(what, do string, fix Fix) {
	*r.all = append(*r.all, Finding{Where: r.where, What: what, Do: do, Money: true, Fix: fix})
}

// Unmendable takes away every fix; do is what a person can do first.
func (r *Report) Unmendable(do string) {
	for i, f := range *r.all {
		if f.Fix != nil {
			(*r.all)[i].Fix, (*r.all)[i].Do = nil, do
		}
	}
}

// FromBackup is what can be done about a record that is gone or unreadable.
const FromBackup = "restore it from a backup"

// Delete is the fix that takes keys away.
func Delete(st store.Updater, keys ...string) Fix {
	return func(ctx context.Context) error {
		return st.Update(ctx, func(tx store.Store) error {
			for _, key := range keys {
				if err := tx.Delete(ctx, key); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// Put is the fix that stores value at key.
func Put(st store.Updater, key string, value []byte) Fix {
	return func(ctx context.Context) error { return st.Put(ctx, key, value) }
}

// PutJSON is Put of v as JSON.
func PutJSON(st store.Updater, key string, v any) Fix { return Put(st, key, fsys.Line(v)) }

// Records returns what is stored below prefix as JSON, by key; what is no T is
// added to r as a record of what.
func Records[T any](ctx context.Context, st store.Store, r *Report, prefix, what string) (map[string]T, error) {
	return RecordsAs(ctx, st, r, prefix, what, func(_ string, b []byte, v *T) error { return json.Unmarshal(b, v) })
}

// RecordsAs is [Records] of what read makes of a value.
func RecordsAs[T any](ctx context.Context, st store.Store, r *Report, prefix, what string, read func(key string, value []byte, v *T) error) (map[string]T, error) {
	all := map[string]T{}
	for p, err := range store.All(ctx, st, prefix) {
		if err != nil {
			return nil, err
		}
		var v T
		if err := read(p.Key, p.Value, &v); err != nil {
			r.Lost(fmt.Sprintf("the record of %s %s cannot be read: %v", what, name(p.Key), err), FromBackup)
			continue
		}
		all[p.Key] = v
	}
	return all, nil
}

// Record returns what is stored at key, the zero value if nothing is; ok says
// that it could be read.
func Record[T any](ctx context.Context, st store.Store, r *Report, key, what string) (v T, ok bool, err error) {
	b, err := st.Get(ctx, key)
	switch {
	case err != nil && fsys.CodeOf(err) == fsys.NotExist:
		return v, true, nil
	case err != nil:
		return v, false, err
	}
	if err := json.Unmarshal(b, &v); err != nil {
		r.Lost(fmt.Sprintf("%s cannot be read: %v", what, err), FromBackup)
		return v, false, nil
	}
	return v, true, nil
}

// name is the last part of a key, as files show it.
func name(key string) string {
	s := strings.TrimSuffix(key, "/")
	s = s[strings.LastIndexByte(s, '/')+1:]
	if short := strings.TrimLeft(s, "0"); short != "" {
		return short
	}
	return s
}

// An Index is keys that follow from other records.
type Index struct {
	Prefix string
	What   string            // the index, in a sentence: the list of jobs
	Of     string            // what it has entries for: job
	Want   map[string][]byte // what should be there
}

// Check compares what is stored with what should be.
func (x Index) Check(ctx context.Context, st store.Updater, r *Report) error {
	have := map[string]bool{}
	for p, err := range store.All(ctx, st, x.Prefix) {
		if err != nil {
			return err
		}
		have[p.Key] = true
		want, ok := x.Want[p.Key]
		switch {
		case !ok:
			r.Mend(fmt.Sprintf("%s has %s %s, which does not belong there", x.What, x.Of, name(p.Key)), "removes it", Delete(st, p.Key))
		case string(want) != string(p.Value):
			r.Mend(fmt.Sprintf("%s disagrees with the record of %s %s", x.What, x.Of, name(p.Key)), "corrects it from the record", Put(st, p.Key, want))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(x.Want)) {
		if !have[key] {
			r.Mend(fmt.Sprintf("%s lacks %s %s", x.What, x.Of, name(key)), "adds it", Put(st, key, x.Want[key]))
		}
	}
	return nil
}

// Strays finds what is stored below prefix and is of nothing: owner returns
// what a key belongs to, and ok whether that is there.
func Strays(ctx context.Context, st store.Updater, r *Report, prefix, what string, owner func(key string) (of string, ok bool)) error {
	stray := map[string][]string{}
	for p, err := range store.All(ctx, st, prefix) {
		if err != nil {
			return err
		}
		if of, ok := owner(p.Key); !ok {
			stray[of] = append(stray[of], p.Key)
		}
	}
	for _, of := range slices.Sorted(maps.Keys(stray)) {
		r.Mend(fmt.Sprintf("there is %s of %s, which is not there", what, of), "deletes it", Delete(st, stray[of]...))
	}
	return nil
}

// Part returns the part of a key after prefix, up to the next slash.
func Part(key, prefix string) string {
	part, _, _ := strings.Cut(strings.TrimPrefix(key, prefix), "/")
	return part
}
