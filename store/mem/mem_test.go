package mem_test

import (
	"testing"

	"agent9/fsys"
	"agent9/store"
	"agent9/store/mem"
)

func TestUpdateIsAllOrNothing(t *testing.T) {
	ctx, s := t.Context(), mem.New()
	a, b := store.Sub(s, "a/"), store.Sub(s, "b/")
	for _, end := range []error{fsys.Busy, nil} {
		followed := false
		err := a.Update(ctx, func(tx store.Store) error {
			store.After(tx, func() { followed = true })
			if err := tx.Put(ctx, "1", nil); err != nil {
				return err
			}
			if err := store.In(tx, b).Put(ctx, "1", nil); err != nil {
				return err
			}
			return end
		})
		if err != end || followed != (end == nil) {
			t.Errorf("got error %v, followed %v; want error %v", err, followed, end)
		}
	}
	if page, err := s.List(ctx, "", "", 0); err != nil || len(page) != 2 || page[1].Key != "b/1" {
		t.Errorf("got %v, %v", page, err)
	}
}
