package tokens

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"agent9/fsys"
	"agent9/store"
)

// The keys of the store. The second and third hold the hash, and lead to the
// first without a look at every token.
const (
	byHash   = "token/"  // <hash>: the grant
	byAgent  = "agent/"  // <agent>/<id>
	byExpiry = "expiry/" // <milliseconds>/<id>
)

func expiryKey(t time.Time) string { return fmt.Sprintf("%s%020d/", byExpiry, t.UnixMilli()) }

func indexes(g Grant) []string {
	keys := []string{byAgent + g.Agent + "/" + g.ID}
	if !g.Expires.IsZero() {
		keys = append(keys, expiryKey(g.Expires)+g.ID)
	}
	return keys
}

func remove(ctx context.Context, tx store.Store, hash string, g Grant) error {
	for _, key := range append(indexes(g), byHash+hash) {
		if err := tx.Delete(ctx, key); err != nil {
			return err
		}
	}
	return nil
}

// find returns the live token with this id, or fsys.NotExist; hash is also that of
// one whose record is damaged.
func (t *Tokens) find(ctx context.Context, st store.Store, id string) (hash string, g Grant, err error) {
	if hash, g, err = load(ctx, st, id); err == nil && g.expired(t.opts.Now()) {
		t.poke()
		err = fsys.NotExist
	}
	return hash, g, err
}

func load(ctx context.Context, st store.Store, id string) (hash string, g Grant, err error) {
	if len(id) != idDigits {
		return "", g, fsys.NotExist
	}
	st = store.Forgiving(st)
	page, err := st.List(ctx, byHash+id, "", 1)
	if err != nil {
		return "", g, err
	}
	if len(page) == 0 {
		return "", g, fsys.NotExist
	}
	hash = page[0].Key[len(byHash):]
	g, err = store.GetJSON[Grant](ctx, st, byHash+hash)
	return hash, g, err
}

// listed returns the token of the entry of an index that has this key. If there
// is none, or its record is damaged, so that nobody gets in with it, ok is false
// and all that there is of it is gone.
func listed(ctx context.Context, tx store.Store, key string) (hash string, g Grant, ok bool, err error) {
	id := key[strings.LastIndexByte(key, '/')+1:]
	hash, g, err = load(ctx, tx, id)
	if store.IsDamaged(err) || fsys.CodeOf(err) == fsys.NotExist {
		return hash, g, false, cmp.Or(erase(ctx, tx, hash, id), tx.Delete(ctx, key))
	}
	return hash, g, err == nil, err
}

// erase deletes what there is of a token whose record is damaged.
func erase(ctx context.Context, tx store.Store, hash, id string) error {
	if hash != "" {
		if err := tx.Delete(ctx, byHash+hash); err != nil {
			return err
		}
	}
	for _, index := range []string{byAgent, byExpiry} {
		for p, err := range store.All(ctx, store.Forgiving(tx), index) {
			if err == nil && strings.HasSuffix(p.Key, "/"+id) {
				err = tx.Delete(ctx, p.Key)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}
