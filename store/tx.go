package store

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"

	"agent9/fsys"
)

// The largest key and value, in bytes.
const (
	MaxKey   = 4 << 10
	MaxValue = 16 << 20
)

// A Base is the committed state under a transaction. The bytes that it gives
// are not copies and are not kept. ctx is that of the operation; an error other
// than fsys.NotExist undoes the transaction.
type Base interface {
	// Get returns the value at key, or fsys.NotExist.
	Get(ctx context.Context, key string) (value []byte, err error)
	// Range gives f what begins with prefix and is greater than after, in
	// ascending order, until f returns false. After an error there may be more.
	Range(ctx context.Context, prefix, after string, f func(key string, value []byte) (more bool)) error
}

// A Tx is one transaction: what it changes lies over a Base until a driver
// writes that down. It is for drivers; everyone else sees a Store.
//
// A driver calls Run, then, if that succeeded, makes Changes durable, and in
// every case calls End.
type Tx struct {
	db      Updater
	base    Base
	changes map[string][]byte // nil: deleted
	ends    []func(committed bool)
	failed  error // of a read of base
	over    atomic.Bool
}

var _ Store = (*Tx)(nil)

// NewTx returns a transaction of db on what base holds.
func NewTx(db Updater, base Base) *Tx {
	return &Tx{db: db, base: base, changes: make(map[string][]byte)}
}

// Run performs f once. A panic in f is logged and becomes an error, so that
// it undoes this transaction and nothing else; so does a read that failed,
// whatever f made of it.
func (t *Tx) Run(f func(tx Store) error) (err error) {
	defer t.over.Store(true)
	defer func() {
		if p := recover(); p != nil {
			slog.Error("panic in a transaction", "panic", p, "stack", string(debug.Stack()))
			err = fsys.E(fsys.Internal, fmt.Sprintf("transaction panicked and was rolled back: %v", p))
		}
	}()
	if err = f(t); err == nil {
		err = t.failed
	}
	return err
}

// Changes returns what is to be stored, in the order of the keys. A nil value
// deletes its key.
func (t *Tx) Changes() iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for _, key := range slices.Sorted(maps.Keys(t.changes)) {
			if !yield(key, t.changes[key]) {
				return
			}
		}
	}
}

// End says how the transaction ended and does what waited for that.
func (t *Tx) End(committed bool) {
	t.over.Store(true)
	ends := t.ends
	t.ends = nil
	for _, f := range ends {
		follow(f, committed)
	}
}

// follow keeps a panic after the commit from what others committed.
func follow(f func(bool), committed bool) {
	defer func() {
		if p := recover(); p != nil {
			slog.Error("panic after a transaction", "panic", p, "stack", string(debug.Stack()))
		}
	}()
	f(committed)
}

func (t *Tx) check() error {
	if t.over.Load() {
		return fsys.E(fsys.Internal, "a transaction was used after its end")
	}
	return nil
}

func (t *Tx) Get(ctx context.Context, key string) ([]byte, error) {
	if err := t.check(); err != nil {
		return nil, err
	}
	value, err := t.get(ctx, key)
	if err != nil {
		return nil, err
	}
	return Clone(value), nil
}

func (t *Tx) Lend(ctx context.Context, key string, f func([]byte) error) error {
	if err := t.check(); err != nil {
		return err
	}
	value, err := t.get(ctx, key)
	if err != nil {
		return err
	}
	return f(value)
}

func (t *Tx) get(ctx context.Context, key string) ([]byte, error) {
	value, changed := t.changes[key]
	switch {
	case !changed:
		value, err := t.base.Get(ctx, key)
		return value, t.read(err)
	case value == nil:
		return nil, fsys.NotExist
	}
	return value, nil
}

// read keeps what is wrong with the base: what f decided is then wrong too.
func (t *Tx) read(err error) error {
	if err != nil && t.failed == nil && fsys.CodeOf(err) != fsys.NotExist {
		t.failed = err
	}
	return err
}

func (t *Tx) Put(_ context.Context, key string, value []byte) error {
	return t.keep(key, Clone(value))
}

// keep is Put of a value that is not nil and belongs to t from then on.
func (t *Tx) keep(key string, value []byte) error {
	if err := t.check(); err != nil {
		return err
	}
	if err := Check(key, value); err != nil {
		return err
	}
	t.changes[key] = value
	return nil
}

func (t *Tx) Delete(ctx context.Context, key string) error {
	if err := t.check(); err != nil {
		return err
	}
	_, err := t.base.Get(ctx, key)
	if _, changed := t.changes[key]; changed || err == nil || fsys.CodeOf(err) != fsys.NotExist {
		t.changes[key] = nil // also of what cannot be read
	}
	return nil
}

func (t *Tx) List(ctx context.Context, prefix, after string, n int) ([]Pair, error) {
	if err := t.check(); err != nil {
		return nil, err
	}
	return Page(n, func(f func(string, []byte) bool) error { return t.merged(ctx, prefix, after, f) })
}

// merged is Range of the base with the changes of this transaction.
func (t *Tx) merged(ctx context.Context, prefix, after string, f func(string, []byte) bool) error {
	under := func(f func(string, []byte) bool) error { return t.base.Range(ctx, prefix, after, f) }
	return t.read(Merge(t.changes, prefix, after, under, f))
}

// Merge gives f, in ascending order, what under gives and changes, of which
// nil values delete, that begin with prefix and are greater than after.
func Merge(changes map[string][]byte, prefix, after string, under func(f func(string, []byte) bool) error, f func(key string, value []byte) (more bool)) error {
	var mine []string
	for key := range changes {
		if key > after && strings.HasPrefix(key, prefix) {
			mine = append(mine, key)
		}
	}
	slices.Sort(mine)
	more := true
	before := func(key string, all bool) {
		for ; more && len(mine) > 0 && (all || mine[0] < key); mine = mine[1:] {
			if v := changes[mine[0]]; v != nil {
				more = f(mine[0], v)
			}
		}
	}
	err := under(func(key string, value []byte) bool {
		before(key, false)
		if more && (len(mine) == 0 || mine[0] != key) {
			more = f(key, value)
		}
		return more
	})
	if err == nil {
		before("", true)
	}
	return err
}

// Check reports whether value can be stored at key.
func Check(key string, value []byte) error {
	switch {
	case key == "":
		return fsys.E(fsys.Invalid, "a key cannot be empty")
	case len(key) > MaxKey:
		return fsys.E(fsys.Invalid, fmt.Sprintf("a key is at most %d bytes long", MaxKey))
	case len(value) > MaxValue:
		return fsys.E(fsys.TooLarge, fmt.Sprintf("a value is at most %d bytes long", MaxValue))
	}
	return nil
}

// Room is how many bytes a driver may put behind a value of a Tx, in its capacity.
const Room = 8

// Clone returns a copy of value that is never nil and has Room behind it.
func Clone(value []byte) []byte { return append(make([]byte, 0, len(value)+Room), value...) }

// A default page is cut by how many pairs and how many bytes it has.
const (
	pagePairs = 256
	pageBytes = 1 << 20
)

// Page returns copies of the first n that each gives, or a default page if
// n <= 0.
func Page(n int, each func(f func(key string, value []byte) (more bool)) error) (page []Pair, err error) {
	size := 0
	err = each(func(key string, value []byte) bool {
		if value != nil { // else it is damaged
			value = Clone(value)
		}
		page = append(page, Pair{key, value})
		size += len(key) + len(value)
		return len(page) != n && (n > 0 || len(page) < pagePairs && size < pageBytes)
	})
	if err != nil {
		return nil, err
	}
	return page, nil
}
