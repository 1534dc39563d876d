package work

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"agent9/fsys"
	"agent9/store"
)

// Keys are what idempotency keys stand for.
//
// An entry is made in the transaction that makes the work, and counts until its
// time is over, the work has ended, and no directory has the key for its name.
// Who removes the work's directory takes the entry away as well, as that is how
// to ask again; work that is swept leaves it.
type Keys struct {
	// What is the work's name in reasons, such as job.
	What string
	// Now is the clock.
	Now func() time.Time
	// Lasts reports whether the entry of key, whose time is over, counts on:
	// work n has not ended, or has a directory of that name.
	Lasts func(ctx context.Context, st store.Store, key string, n int64) (bool, error)
}

// The keys of the records.
const (
	keyPrefix    = "key/" // by idempotency key
	expiryPrefix = "exp/" // by when an entry expires, and key: nothing
)

// A Key is what one stands for.
type Key struct {
	Number  int64     `json:"job"`
	Hash    string    `json:"hash"` // of the request
	Expires time.Time `json:"expires"`
}

// expiryKey is where to find the entry of key when its time is over.
func expiryKey(at time.Time, key string) string {
	return expiryPrefix + Padded(at.UnixMilli()) + "/" + key
}

// LookUp returns the entry of key, or NotExist if key stands for nothing.
func (k *Keys) LookUp(ctx context.Context, st store.Store, key string) (Key, error) {
	e, err := store.GetJSON[Key](ctx, st, keyPrefix+key)
	if err != nil || k.Now().Before(e.Expires) {
		return e, err
	}
	lasts, err := k.Lasts(ctx, st, key, e.Number)
	if err == nil && !lasts {
		err = fsys.NotExist
	}
	return e, err
}

// Prior returns the work that key stands for, or 0; Exist if that was another
// request than the one of hash. An empty key stands for nothing.
func (k *Keys) Prior(ctx context.Context, st store.Store, key, hash string) (int64, error) {
	if key == "" {
		return 0, nil
	}
	e, err := k.LookUp(ctx, st, key)
	switch {
	case missing(err):
		return 0, nil
	case err != nil:
		return 0, err
	case e.Hash != hash:
		return 0, fsys.E(fsys.Exist, fmt.Sprintf("the idempotency key %s stands for %s %d, which was another request", key, k.What, e.Number))
	}
	return e.Number, nil
}

// Enter makes key stand for e until that expires. An empty key is no key.
func (k *Keys) Enter(ctx context.Context, tx store.Store, key string, e Key) error {
	if key == "" {
		return nil
	}
	e.Expires = e.Expires.Truncate(time.Millisecond)
	if err := store.PutJSON(ctx, tx, keyPrefix+key, e); err != nil {
		return err
	}
	return tx.Put(ctx, expiryKey(e.Expires, key), nil)
}

// Forget takes away what key stands for, if that is work n, and, with a time,
// if it stands for it no longer then.
func (k *Keys) Forget(ctx context.Context, tx store.Store, key string, n int64, at time.Time) error {
	e, err := store.GetJSON[Key](ctx, store.Forgiving(tx), keyPrefix+key)
	if missing(err) || err == nil && (e.Number != n || !at.IsZero() && at.Before(e.Expires)) {
		return nil
	}
	if err != nil && !store.IsDamaged(err) {
		return err
	}
	if err := tx.Delete(ctx, expiryKey(e.Expires, key)); err != nil {
		return err
	}
	return tx.Delete(ctx, keyPrefix+key)
}

// sweepMost is how many entries or pieces of work a transaction sweeps that
// adds one: so there are soon no old ones left, and none takes long.
const sweepMost = 4

// Sweep takes away entries whose time is over. It is called in every
// transaction that may enter one.
func (k *Keys) Sweep(ctx context.Context, tx store.Store) error {
	now := k.Now()
	page, err := store.Forgiving(tx).List(ctx, expiryPrefix, "", sweepMost)
	if err != nil {
		return err
	}
	for _, p := range page {
		ms, key, _ := strings.Cut(p.Key[len(expiryPrefix):], "/")
		if n, err := strconv.ParseInt(ms, 10, 64); err == nil && now.UnixMilli() < n {
			return nil
		}
		if err := tx.Delete(ctx, p.Key); err != nil {
			return err
		}
		if err := k.expire(ctx, tx, key, now); err != nil {
			return err
		}
	}
	return nil
}

// expire takes away the entry of key, whose time may be over. One that counts
// on is looked at again in a day.
func (k *Keys) expire(ctx context.Context, tx store.Store, key string, now time.Time) error {
	e, err := store.GetJSON[Key](ctx, store.Forgiving(tx), keyPrefix+key)
	if missing(err) || err == nil && now.Before(e.Expires) {
		return nil
	}
	if store.IsDamaged(err) {
		return tx.Delete(ctx, keyPrefix+key)
	}
	if err != nil {
		return err
	}
	lasts, err := k.Lasts(ctx, tx, key, e.Number)
	switch {
	case err != nil:
		return err
	case !lasts:
		return tx.Delete(ctx, keyPrefix+key)
	}
	return tx.Put(ctx, expiryKey(now.Add(Day), key), nil)
}
