package tokens

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"agent9/fsys"
	"agent9/store"
)

// recheck is how long Watch sleeps at most: the clock may be set, and the
// machine may sleep. After an error it tries again after that.
const recheck = time.Minute

// Watch ends tokens and the sessions that they opened when their time comes,
// until ctx ends.
func (t *Tokens) Watch(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-t.poked:
		case <-ctx.Done():
			return
		}
		left, err := t.expire(ctx)
		if err != nil && ctx.Err() == nil {
			slog.Warn("tokens that have expired could not be removed", "err", err)
		}
		timer.Reset(left)
	}
}

func (t *Tokens) poke() {
	select {
	case t.poked <- struct{}{}:
	default:
	}
}

// expire removes the tokens whose time has come, and returns how long to sleep
// then. If the store does not let it, their sessions end all the same.
func (t *Tokens) expire(ctx context.Context) (sleep time.Duration, err error) {
	now := t.opts.Now()
	t.live.endExpired(now)
	sleep, err = t.until(ctx, now)
	if err != nil || sleep > 0 {
		return sleep, err
	}
	if err := t.st.Update(ctx, func(tx store.Store) error { return t.sweep(ctx, tx) }); err != nil {
		return recheck, err
	}
	return t.until(ctx, t.opts.Now())
}

// until is how long to sleep until the first token expires.
func (t *Tokens) until(ctx context.Context, now time.Time) (time.Duration, error) {
	page, err := store.Forgiving(t.st).List(ctx, byExpiry, "", 1)
	if err != nil || len(page) == 0 {
		return recheck, err
	}
	due, err := expiryOf(page[0].Key)
	if err != nil {
		return recheck, err
	}
	return min(max(due.Sub(now), 0), recheck), nil
}

// expiryOf reads an [expiryKey].
func expiryOf(key string) (time.Time, error) {
	digits, _, _ := strings.Cut(key[len(byExpiry):], "/")
	ms, err := strconv.ParseInt(digits, 10, 64)
	return time.UnixMilli(ms), fsys.Wrap(fsys.Internal, "the database has a token that expires at "+quote(digits), err)
}

// sweep removes the tokens that have expired, and ends their sessions.
func (t *Tokens) sweep(ctx context.Context, tx store.Store) error {
	now := t.opts.Now()
	for p, err := range store.All(ctx, store.Forgiving(tx), byExpiry) {
		if err != nil {
			return err
		}
		if due, err := expiryOf(p.Key); err != nil || due.After(now) {
			return err
		}
		hash, g, ok, err := listed(ctx, tx, p.Key)
		if err == nil && ok {
			err = remove(ctx, tx, hash, g)
		}
		if err != nil {
			return err
		}
		store.After(tx, func() { t.live.end(hash) })
	}
	return nil
}
