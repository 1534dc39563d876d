package bolt

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"

	"agent9/fsys"
	"agent9/store"

	"go.etcd.io/bbolt"
)

// base is the committed state in a transaction of the file, and what the same
// transaction of the file has put there since.
// It is for one goroutine at a time.
type base struct {
	d      *DB
	sealed *bbolt.Bucket
	plain  *bbolt.Bucket // what was stored before records were sealed; nil: nothing
	cursor *bbolt.Cursor // of Get: one that has sought once seeks for nothing
	key    *[]byte       // that Get sought last
	raw    bool          // records are given as they are
	spares bool          // Range gives damaged ones as nil
}

var _ store.ForgivingBase = base{}

func (b base) Forgiving() store.Base {
	b.spares = true
	return b
}

func (d *DB) newBase(tx *bbolt.Tx) base {
	b := base{d: d, sealed: tx.Bucket(sealedBucket), key: new([]byte)}
	if d.mixed.Load() {
		b.plain = tx.Bucket(plainBucket)
	}
	b.cursor = b.sealed.Cursor()
	return b
}

func (b base) Get(_ context.Context, key string) (value []byte, err error) {
	defer b.d.recovered(&err)
	k := append((*b.key)[:0], key...)
	*b.key = k
	found, record, proven := seek(b.cursor, k)
	switch {
	case bytes.Equal(found, k):
		value, ok := unseal(k, record)
		if !ok && !b.raw {
			return nil, b.damaged(key)
		}
		return value, nil
	case !proven && !b.raw:
		return nil, b.damaged(key)
	case b.plain != nil:
		if value := b.plain.Get(k); value != nil {
			return value, nil
		}
	}
	return nil, fsys.NotExist
}

func (b base) Range(_ context.Context, prefix, after string, f func(key string, value []byte) bool) (err error) {
	defer b.d.recovered(&err)
	from := max(prefix, after)
	if _, _, proven := seek(b.cursor, []byte(from)); !proven && !b.raw && !b.spares {
		return b.damaged(from)
	}
	var old *bbolt.Cursor
	var oldKey, oldValue []byte
	if b.plain != nil {
		old = b.plain.Cursor()
		if oldKey, oldValue = old.Seek([]byte(from)); from == after && string(oldKey) == after {
			oldKey, oldValue = old.Next()
		}
	}
	more := true
	// earlier gives what is not sealed and comes before key, or all of it.
	earlier := func(key []byte) {
		for more && oldKey != nil && (key == nil || bytes.Compare(oldKey, key) < 0) {
			if !strings.HasPrefix(string(oldKey), prefix) {
				oldKey = nil
				return
			}
			more = f(string(oldKey), oldValue)
			oldKey, oldValue = old.Next()
		}
	}
	c := b.sealed.Cursor()
	key, record := c.Seek([]byte(from))
	for last := from; key != nil; key, record = c.Next() {
		name := string(key)
		if name < last || name == last && last != from {
			return b.damaged(from)
		}
		last = name
		if !strings.HasPrefix(name, prefix) {
			if !wholeKey(key, record) && !b.raw && !b.spares {
				return b.damaged(from)
			}
			break
		}
		if name == after {
			continue
		}
		value, ok := unseal(key, record)
		if !ok && !b.raw {
			if err := b.damaged(name); !b.spares {
				return err
			}
			value = nil
		}
		if earlier(key); more {
			more = f(name, value)
		}
		if !more {
			return nil
		}
	}
	earlier(nil)
	return nil
}

// put stores value, which is then the file's.
func (b base) put(key string, value []byte) error {
	k := []byte(key)
	if b.plain != nil {
		if err := b.plain.Delete(k); err != nil {
			return err
		}
	}
	return b.sealed.Put(k, seal(k, value))
}

func (b base) delete(key string) error {
	if b.plain != nil {
		if err := b.plain.Delete([]byte(key)); err != nil {
			return err
		}
	}
	return b.sealed.Delete([]byte(key))
}

// store writes what tx changed.
func (b base) store(tx *store.Tx) (changed bool, err error) {
	for key, value := range tx.Changes() {
		if value == nil {
			err = b.delete(key)
		} else {
			err = b.put(key, value)
		}
		if err != nil {
			return changed, err
		}
		changed = true
	}
	return changed, nil
}

// damaged is the answer to who asked for key, when that cannot be told from what
// is stored. It names no other key, which may be somebody else's.
func (b base) damaged(key string) error {
	where := b.where(key)
	if b.d.tellOnce(key) {
		slog.Error("damaged record in the database", "file", b.d.path, "key", key, "of", where)
	}
	return &fsys.Error{Code: fsys.Internal, Err: store.ErrDamaged,
		Reason: fmt.Sprintf("the database record of %s is damaged, at the key %.200q: its bytes are not those that were stored; restore it from a backup (agentd fsck lists all damage)", where, key)}
}

// where names the file that key belongs to, as far as is known.
func (b base) where(key string) string {
	if b.d.opt.Where != nil {
		b.raw, b.key = true, new([]byte)
		b.cursor = b.sealed.Cursor()
		s := store.NewSnapshot(b)
		defer s.End()
		if where := b.d.opt.Where(context.Background(), s, key); where != "" {
			return where
		}
	}
	return "an unknown file"
}

// recovered makes an error of what the file's pages do when they are not what
// they should be.
func (d *DB) recovered(err *error) {
	if p := recover(); p != nil {
		slog.Error("the database cannot be read", "file", d.path, "panic", p, "stack", string(debug.Stack()))
		*err = damaged(d.path, fmt.Sprint(p))
	}
}

// mostTold is how many damaged records the log names.
const mostTold = 1000

func (d *DB) tellOnce(key string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.told[key] || len(d.told) >= mostTold {
		return false
	}
	if d.told == nil {
		d.told = map[string]bool{}
	}
	d.told[key] = true
	return true
}

// resealed is how many bytes a transaction of Reseal seals at least, if there are
// as many.
const resealed = 4 << 20

// Reseal seals what was stored before records were, in transactions of some
// megabytes each, so that it can be interrupted. It returns how many there were.
func (d *DB) Reseal(ctx context.Context) (n int, err error) {
	for d.mixed.Load() {
		if ctx.Err() != nil {
			return n, context.Cause(ctx)
		}
		some := 0
		err := d.guard(func() error {
			d.kept.shut()
			defer d.kept.open()
			return d.file.Update(func(tx *bbolt.Tx) (err error) {
				some, err = d.newBase(tx).reseal()
				return err
			})
		})
		if err != nil {
			return n, err
		}
		n += some
		d.mixed.Store(some > 0)
	}
	return n, nil
}

func (b base) reseal() (n int, err error) {
	page, err := store.Page(-1, func(f func(string, []byte) bool) error {
		c, size := b.plain.Cursor(), 0
		for key, value := c.First(); key != nil && size < resealed; key, value = c.Next() {
			f(string(key), value)
			size += len(key) + len(value)
		}
		return nil
	})
	for _, p := range page {
		if err := b.put(p.Key, p.Value); err != nil {
			return n, err
		}
		n++
	}
	return n, err
}
