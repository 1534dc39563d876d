package compute

import (
	"context"
	"time"

	"agent9/services/internal/work"
	"agent9/store"
)

// jobOverhead is what a job counts besides its request, streams and result.
const jobOverhead = 1 << 10

// streamed is how many bytes the streams of j have.
func (j *job) streamed() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.output == nil {
		return 0
	}
	return j.output.Size() + j.chunks.Size()
}

// keep counts r, which has ended, among what is kept, and sweeps what is so no
// longer.
func (s *Service) keep(ctx context.Context, tx store.Store, r record) error {
	if err := s.count(ctx, tx, func(t *totals) { t.Kept += r.Size }); err != nil {
		return err
	}
	if err := tx.Put(ctx, work.EndedKey(r.Ended, r.Number), nil); err != nil {
		return err
	}
	return s.sweepJobs(ctx, tx)
}

// unkeep is the opposite of keep.
func (s *Service) unkeep(ctx context.Context, tx store.Store, r record) error {
	if err := s.count(ctx, tx, func(t *totals) { t.Kept = max(t.Kept-r.Size, 0) }); err != nil {
		return err
	}
	return tx.Delete(ctx, work.EndedKey(r.Ended, r.Number))
}

// sweepJobs removes the oldest of what has ended that are too old or too much.
func (s *Service) sweepJobs(ctx context.Context, tx store.Store) error {
	p, err := s.policies.Read(ctx, tx)
	if err != nil {
		return err
	}
	old := func(age time.Duration) (bool, error) {
		t, err := s.totals(ctx, tx)
		return age >= time.Duration(p.KeepResults) || t.Kept > p.KeepBytes, err
	}
	return work.SweepEnded(ctx, tx, s.config.Now(), old, func(n int64) error { return s.sweep(ctx, tx, n) })
}

// sweep removes job n, which has ended. Its key stands for it as long as it
// would otherwise.
func (s *Service) sweep(ctx context.Context, tx store.Store, n int64) error {
	r, err := store.GetJSON[record](ctx, store.Forgiving(tx), recordKey(n))
	if store.IsDamaged(err) {
		return s.erase(ctx, tx, n, "swept")
	}
	if err != nil {
		return err
	}
	if r.Key != "" {
		if err := s.keys.Forget(ctx, tx, r.Key, n, s.config.Now()); err != nil {
			return err
		}
	}
	r.Key = ""
	return s.delete(ctx, tx, s.jobs.Known(n), r, "swept")
}

// dropLogs deletes the streams of r's job, which is j if it is in memory.
func (s *Service) dropLogs(ctx context.Context, tx store.Store, j *job, r record) error {
	if j != nil {
		j.mu.Lock()
		output, chunks := j.output, j.chunks
		j.mu.Unlock()
		if output != nil {
			if err := output.Drop(tx); err != nil {
				return err
			}
			return chunks.Drop(tx)
		}
	}
	for _, view := range []string{outputView(r.Number), chunksView(r.Number)} {
		if err := store.DeleteAll(ctx, tx, view); err != nil {
			return err
		}
	}
	return nil
}

// vanish makes job n, if it is in memory, one that is no longer there.
func (s *Service) vanish(n int64) {
	j := s.jobs.Remove(n)
	if j == nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.gone = true
	if j.output != nil {
		j.output.Tape().End()
		j.chunks.Tape().End()
	}
}
