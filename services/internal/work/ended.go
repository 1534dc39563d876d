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

// Grace is how long what has ended stays in any case, for who waited for it.
const Grace = time.Minute

// EndedPrefix is where an [EndedKey] is.
const EndedPrefix = "end/" // what has ended, by when: nothing

// EndedKey is where to find work n that ended then.
func EndedKey(ended time.Time, n int64) string {
	return EndedPrefix + Padded(ended.UnixMilli()) + "/" + Padded(n)
}

// SweepEnded goes through what has ended, the oldest first, until it is told
// to stop: old reports whether work that ended so long ago is to be removed,
// and remove does so. It is called in every transaction that adds an
// [EndedKey], and goes on in the next one if there is much.
func SweepEnded(ctx context.Context, tx store.Store, now time.Time, old func(age time.Duration) (bool, error), remove func(n int64) error) error {
	page, err := store.Forgiving(tx).List(ctx, EndedPrefix, "", sweepMost)
	if err != nil {
		return err
	}
	for _, pair := range page {
		if pair.Value == nil { // agentd fsck puts back what the index should have
			if err := tx.Delete(ctx, pair.Key); err != nil {
				return err
			}
			continue
		}
		ended, n, err := parseEnded(pair.Key)
		if err != nil {
			return err
		}
		age := now.Sub(ended)
		if age < Grace {
			return nil
		}
		if sweep, err := old(age); err != nil || !sweep {
			return err
		}
		if err := remove(n); err != nil {
			return err
		}
	}
	return nil
}

func parseEnded(key string) (ended time.Time, n int64, err error) {
	ms, number, _ := strings.Cut(key[len(EndedPrefix):], "/")
	at, err := strconv.ParseInt(ms, 10, 64)
	if err == nil {
		n, err = strconv.ParseInt(number, 10, 64)
	}
	if err != nil {
		return time.Time{}, 0, fsys.E(fsys.Internal, fmt.Sprintf("the database has ended work that is called %q", key))
	}
	return time.UnixMilli(at), n, nil
}
