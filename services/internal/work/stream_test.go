package work

import (
	"context"
	"testing"

	"agent9/fsys"
)

// The result of work that has ended is there also for who cannot wait.
func TestResultIsThereAtOnce(t *testing.T) {
	done := make(chan struct{})
	close(done)
	r := &Result{Done: done, Load: func(ctx context.Context) ([]byte, error) { return []byte("result"), ctx.Err() }}
	for range 100 {
		h, err := r.Open(t.Context(), fsys.Read)
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 10)
		if n, err := fsys.ReadAt(fsys.AtOnce(t.Context()), h, b, 0); string(b[:n]) != "result" || err != nil {
			t.Fatalf("%q, %v", b[:n], err)
		}
	}
}
