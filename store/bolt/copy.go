package bolt

import (
	"context"
	"io"

	"agent9/fsys"
	"agent9/store"

	"go.etcd.io/bbolt"
)

var (
	_ store.Copier = (*DB)(nil)
	_ store.Prober = (*DB)(nil)
)

// Copy writes the file as it is at this moment.
func (d *DB) Copy(ctx context.Context, w io.Writer) error {
	return d.guard(func() error {
		tx, err := d.file.Begin(false)
		if err != nil {
			return d.failed(err)
		}
		defer tx.Rollback()
		_, err = tx.WriteTo(patient{ctx, w})
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fsys.Wrap(fsys.Unavailable, "the copy of the database", err)
	})
}

// patient is a writer until ctx ends.
type patient struct {
	ctx context.Context
	w   io.Writer
}

func (p patient) Write(b []byte) (int, error) {
	if p.ctx.Err() != nil {
		return 0, context.Cause(p.ctx)
	}
	return p.w.Write(b)
}

// Probe checks the pages of the file.
func (d *DB) Probe(ctx context.Context, found func(what string)) error {
	return d.guard(func() error {
		return d.file.View(func(tx *bbolt.Tx) error {
			for err := range tx.Check() {
				if ctx.Err() == nil {
					found(err.Error())
				}
			}
			return ctx.Err()
		})
	})
}
