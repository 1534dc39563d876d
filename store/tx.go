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
// are not copies and are not kept.
type Base interface {
	Get(key string) (value []byte, ok bool)
	// Range yields what begins with prefix and is greater than after, in
	// ascending order.
	Range(prefix, after string) iter.Seq2[string, []byte]
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
	over    atomic.Bool
}

var _ Store = (*Tx)(nil)

// NewTx returns a transaction of db on what base holds.
func NewTx(db Updater, base Base) *Tx {
	return &Tx{db: db, base: base, changes: make(map[string][]byte)}
}

// Run performs f once. A panic in f is logged and becomes an error, so that
// it undoes this transaction and nothing else.
func (t *Tx) Run(f func(tx Store) error) (err error) {
	defer t.over.Store(true)
	defer func() {
		if p := recover(); p != nil {
			slog.Error("panic in a transaction", "panic", p, "stack", string(debug.Stack()))
			err = fsys.E(fsys.Internal, fmt.Sprintf("the program broke down while it changed the database, and nothing was changed: %v", p))
		}
	}()
	return f(t)
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

func (t *Tx) Get(_ context.Context, key string) ([]byte, error) {
	if err := t.check(); err != nil {
		return nil, err
	}
	value, ok := t.get(key)
	if !ok {
		return nil, fsys.NotExist
	}
	return Clone(value), nil
}

func (t *Tx) Lend(_ context.Context, key string, f func([]byte) error) error {
	if err := t.check(); err != nil {
		return err
	}
	value, ok := t.get(key)
	if !ok {
		return fsys.NotExist
	}
	return f(value)
}

func (t *Tx) get(key string) ([]byte, bool) {
	if value, changed := t.changes[key]; changed {
		return value, value != nil
	}
	return t.base.Get(key)
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

func (t *Tx) Delete(_ context.Context, key string) error {
	if err := t.check(); err != nil {
		return err
	}
	if _, ok := t.get(key); ok {
		t.changes[key] = nil
	}
	return nil
}

func (t *Tx) List(_ context.Context, prefix, after string, n int) ([]Pair, error) {
	if err := t.check(); err != nil {
		return nil, err
	}
	return Page(t.merged(prefix, after), n), nil
}

// merged yields the base with the changes of this transaction.
func (t *Tx) merged(prefix, after string) iter.Seq2[string, []byte] {
	var mine []string
	for key := range t.changes {
		if key > after && strings.HasPrefix(key, prefix) {
			mine = append(mine, key)
		}
	}
	slices.Sort(mine)
	return func(yield func(string, []byte) bool) {
		for key, value := range t.base.Range(prefix, after) {
			for len(mine) > 0 && mine[0] < key {
				if v := t.changes[mine[0]]; v != nil && !yield(mine[0], v) {
					return
				}
				mine = mine[1:]
			}
			if len(mine) > 0 && mine[0] == key {
				continue
			}
			if !yield(key, value) {
				return
			}
		}
		for _, key := range mine {
			if v := t.changes[key]; v != nil && !yield(key, v) {
				return
			}
		}
	}
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

// Clone returns a copy of value that is never nil.
func Clone(value []byte) []byte { return append(make([]byte, 0, len(value)), value...) }

// A default page is cut by how many pairs and how many bytes it has.
const (
	pagePairs = 256
	pageBytes = 1 << 20
)

// Page returns copies of the first n of seq, or a default page if n <= 0.
func Page(seq iter.Seq2[string, []byte], n int) []Pair {
	var page []Pair
	size := 0
	for key, value := range seq {
		page = append(page, Pair{key, Clone(value)})
		size += len(key) + len(value)
		if len(page) == n || n <= 0 && (len(page) == pagePairs || size >= pageBytes) {
			break
		}
	}
	return page
}
