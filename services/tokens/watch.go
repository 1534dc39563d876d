package tokens

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"agent9/fsys"
	"agent9/store"
	"agent9/store/due"
)

func (t *Tokens) poke() { t.timer.At(t.opts.Now()) }

// Watch ends tokens and the sessions that they opened when their time comes,
// until ctx ends.
func (t *Tokens) Watch(ctx context.Context) {
	t.poke()
	t.timer.Run(ctx)
}

// lapse is what Watch does, and returns when it looks again. What the store did
// not let end is tried again soon.
func (t *Tokens) lapse(ctx context.Context) time.Time {
	next, err := t.expire(ctx)
	if err != nil && ctx.Err() == nil {
		slog.Warn("tokens that have expired could not be removed", "err", err)
	}
	if err != nil || next.IsZero() {
		return t.opts.Now().Add(due.Recheck)
	}
	return next
}

// expire removes the tokens whose time has come, and returns when the next one
// expires. If the store does not let it, their sessions end all the same.
func (t *Tokens) expire(ctx context.Context) (next time.Time, err error) {
	now := t.opts.Now()
	t.live.endExpired(now)
	next, err = t.first(ctx)
	if err != nil || next.IsZero() || next.After(now) {
		return next, err
	}
	if err := t.st.Update(ctx, func(tx store.Store) error { return t.sweep(ctx, tx) }); err != nil {
		return next, err
	}
	return t.first(ctx)
}

// first is when the first token expires; zero if none does.
func (t *Tokens) first(ctx context.Context) (time.Time, error) {
	page, err := store.Forgiving(t.st).List(ctx, byExpiry, "", 1)
	if err != nil || len(page) == 0 {
		return time.Time{}, err
	}
	return expiryOf(page[0].Key)
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
