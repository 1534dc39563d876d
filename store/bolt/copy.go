package bolt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

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

// Verify reads through what Copy wrote.
func (d *DB) Verify(ctx context.Context, r io.ReaderAt) error {
	var all []error
	err := d.pages(ctx, r, func(key, what string) {
		if len(all) < mostSaid {
			all = append(all, errors.New(d.named(key, what)))
		}
	}).check()
	if err == nil && len(all) > 0 {
		err = &fsys.Error{Code: fsys.Internal, Reason: "the database is damaged: " + said(all), Err: store.ErrDamaged}
	}
	return err
}

// pages returns what reads all of the file, or of a copy.
func (d *DB) pages(ctx context.Context, r io.ReaderAt, found func(key, what string)) *pages {
	return &pages{ctx: ctx, r: r, size: pageSize(r), found: found, values: true, leaves: true}
}

// named is what is said of a record.
func (d *DB) named(key, what string) string {
	if key == "" {
		return what
	}
	where := ""
	d.view(func(b base) error {
		where = b.where(key)
		return nil
	})
	return fmt.Sprintf("the record %.200q of %s: %s", key, where, what)
}

// mostSaid is how many things that are wrong an error names.
const mostSaid = 8

func said(all []error) string { return strings.ReplaceAll(errors.Join(all...).Error(), "\n", "; ") }

// whole refuses a file whose pages are not as they were written, as far as that
// is no single record.
func (d *DB) whole(file *os.File) error {
	var all []error
	p := &pages{ctx: context.Background(), r: file, size: pageSize(file), found: func(key, what string) {
		if key == "" && len(all) < mostSaid {
			all = append(all, errors.New(what))
		}
	}}
	if p.size == 0 {
		return nil // bbolt says what it is
	}
	info, err := file.Stat()
	if err != nil {
		return fsys.Wrap(fsys.Unavailable, "the database "+d.path, err)
	}
	p.leaves = info.Size() <= checkedSize
	if err := p.check(); err != nil {
		return damaged(d.path, err.Error())
	}
	if len(all) > 0 {
		return damaged(d.path, said(all))
	}
	return nil
}

// Probe checks the pages of the file, and all records.
func (d *DB) Probe(ctx context.Context, found func(key, what string)) error {
	file, err := os.Open(d.path)
	if err != nil {
		return fsys.Wrap(fsys.Unavailable, "the database "+d.path, err)
	}
	defer file.Close()
	structure := false
	err = d.pages(ctx, file, func(key, what string) {
		structure = structure || key == ""
		found(key, what)
	}).check()
	if err != nil || structure {
		return err
	}
	return d.guard(func() error {
		return d.file.View(func(tx *bbolt.Tx) error {
			for err := range tx.Check() {
				if ctx.Err() == nil {
					found("", err.Error())
				}
			}
			return ctx.Err()
		})
	})
}
