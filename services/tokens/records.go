package tokens

import (
	"context"
	"fmt"
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

// find returns the live token with this id, or fsys.NotExist.
func (t *Tokens) find(ctx context.Context, st store.Store, id string) (hash string, g Grant, err error) {
	if len(id) != idDigits {
		return "", g, fsys.NotExist
	}
	page, err := st.List(ctx, byHash+id, "", 1)
	if err != nil {
		return "", g, err
	}
	if len(page) == 0 {
		return "", g, fsys.NotExist
	}
	hash = page[0].Key[len(byHash):]
	g, err = store.GetJSON[Grant](ctx, st, byHash+hash)
	if err == nil && g.expired(t.opts.Now()) {
		t.poke()
		err = fsys.NotExist
	}
	return hash, g, err
}
