package compute

import (
	"context"

	"agent9/store"
)

// lasts reports whether key stands for job n although its time is over: the
// job has not ended, or has a directory of that name.
func (s *Service) lasts(ctx context.Context, st store.Store, key string, n int64) (bool, error) {
	if _, err := st.Get(ctx, openKey(n)); !missing(err) {
		return err == nil, err
	}
	name, err := st.Get(ctx, listKey(n))
	if missing(err) {
		return false, nil
	}
	return string(name) == key, err
}
