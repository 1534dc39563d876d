package work_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"agent9/services/internal/work"
	"agent9/store"
	"agent9/store/mem"
)

// A document is parsed once after it was written, and what was written in a
// transaction that fails is not taken for it.
func TestDocument(t *testing.T) {
	ctx, db, parses := t.Context(), mem.New(), 0
	doc := work.Document[int]{Key: "n", Default: func() int { return 7 }, Parse: func(text []byte) (n int, err error) {
		parses++
		return n, json.Unmarshal(text, &n)
	}}
	reads := func(st store.Store, want int) {
		t.Helper()
		for range 3 {
			n, err := doc.Read(ctx, st)
			require.NoError(t, err)
			require.Equal(t, want, n)
		}
	}
	reads(db, 7)
	require.NoError(t, db.Update(ctx, func(tx store.Store) error { return tx.Put(ctx, "n", []byte("8")) }))
	reads(db, 8)
	require.Equal(t, 1, parses)
	failed := db.Update(ctx, func(tx store.Store) error {
		require.NoError(t, tx.Put(ctx, "n", []byte("9")))
		reads(tx, 9)
		return errors.New("not to be")
	})
	require.Error(t, failed)
	reads(db, 8)
	require.NoError(t, db.Update(ctx, func(tx store.Store) error { return tx.Put(ctx, "n", []byte("x")) }))
	_, err := doc.Read(ctx, db)
	require.Error(t, err)
	text, err := (&work.Document[int]{Key: "none", Default: doc.Default}).Text(ctx, db)
	require.NoError(t, err)
	require.Equal(t, "7\n", string(text))
}
