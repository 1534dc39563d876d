package compute

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"agent9/fsys"
	"agent9/store"
)

// journal is what an idempotency key stands for.
//
// An entry is made in the transaction that makes the job, and counts until its
// time is over, the job has ended, and no directory has the key for its name.
// Who removes the job's directory takes the entry away as well, as that is how
// to ask again; a result that is swept leaves it.
type journal struct {
	Job     int64     `json:"job"`
	Hash    string    `json:"hash"` // of the request
	Expires time.Time `json:"expires"`
}

// expiryKey is where to find the entry of key when its time is over.
func expiryKey(at time.Time, key string) string {
	return expiryPrefix + padded(at.UnixMilli()) + "/" + key
}

// lookUp returns the entry of key, or NotExist if key stands for nothing.
func (s *Service) lookUp(ctx context.Context, st store.Store, key string) (journal, error) {
	j, err := store.GetJSON[journal](ctx, st, keyPrefix+key)
	if err != nil || s.config.Now().Before(j.Expires) {
		return j, err
	}
	kept, err := s.outlives(ctx, st, key, j)
	if err == nil && !kept {
		err = fsys.NotExist
	}
	return j, err
}

// outlives reports whether j counts although its time is over: its job has not
// ended, or has a directory of that name.
func (s *Service) outlives(ctx context.Context, st store.Store, key string, j journal) (bool, error) {
	if _, err := st.Get(ctx, openKey(j.Job)); !missing(err) {
		return err == nil, err
	}
	name, err := st.Get(ctx, listKey(j.Job))
	if missing(err) {
		return false, nil
	}
	return string(name) == key, err
}

// prior returns the job that sub's key stands for, or 0; Exist if that was
// another request.
func (s *Service) prior(ctx context.Context, st store.Store, sub *submission) (int64, error) {
	if sub.key == "" {
		return 0, nil
	}
	j, err := s.lookUp(ctx, st, sub.key)
	switch {
	case missing(err):
		return 0, nil
	case err != nil:
		return 0, err
	case j.Hash != sub.hash:
		return 0, fsys.E(fsys.Exist, fmt.Sprintf("the idempotency key %s stands for job %d, which was another request", sub.key, j.Job))
	}
	return j.Job, nil
}

// enterKey makes the key of r stand for its job.
func (s *Service) enterKey(ctx context.Context, tx store.Store, r record, hash string) error {
	if r.Key == "" {
		return nil
	}
	p, err := s.readPolicy(ctx, tx)
	if err != nil {
		return err
	}
	j := journal{r.Number, hash, r.Created.Add(time.Duration(p.IdempotencyTTL)).Truncate(time.Millisecond)}
	if err := store.PutJSON(ctx, tx, keyPrefix+r.Key, j); err != nil {
		return err
	}
	return tx.Put(ctx, expiryKey(j.Expires, r.Key), nil)
}

// forgetKey takes away what key stands for, if that is job n, and, with a time,
// if it stands for it no longer then.
func (s *Service) forgetKey(ctx context.Context, tx store.Store, key string, n int64, at time.Time) error {
	j, err := store.GetJSON[journal](ctx, tx, keyPrefix+key)
	if missing(err) || err == nil && (j.Job != n || !at.IsZero() && at.Before(j.Expires)) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := tx.Delete(ctx, expiryKey(j.Expires, key)); err != nil {
		return err
	}
	return tx.Delete(ctx, keyPrefix+key)
}

// sweepMost is how many entries or jobs a transaction sweeps that adds one: so
// there are soon no old ones left, and none takes long.
const sweepMost = 4

// sweepKeys takes away entries whose time is over.
func (s *Service) sweepKeys(ctx context.Context, tx store.Store) error {
	now := s.config.Now()
	page, err := tx.List(ctx, expiryPrefix, "", sweepMost)
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
		if err := s.expire(ctx, tx, key, now); err != nil {
			return err
		}
	}
	return nil
}

// expire takes away the entry of key, whose time may be over. One that counts
// on is looked at again in a day.
func (s *Service) expire(ctx context.Context, tx store.Store, key string, now time.Time) error {
	j, err := store.GetJSON[journal](ctx, tx, keyPrefix+key)
	if missing(err) || err == nil && now.Before(j.Expires) {
		return nil
	}
	if err != nil {
		return err
	}
	kept, err := s.outlives(ctx, tx, key, j)
	switch {
	case err != nil:
		return err
	case !kept:
		return tx.Delete(ctx, keyPrefix+key)
	}
	return tx.Put(ctx, expiryKey(now.Add(day), key), nil)
}
