package bolt

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"

	"agent9/fsys"
	"agent9/store"

	"go.etcd.io/bbolt"
)

// version is that of what the options can read and write.
func (d *DB) version() int { return firstVersion + len(d.opt.Steps) }

// stored returns the version of the file, of which meta is a part, and refuses
// one that is newer than this program, or that cannot be read.
func (d *DB) stored(meta *bbolt.Bucket) (int, error) {
	text := meta.Get(schemaKey)
	if text == nil {
		return 0, nil
	}
	v, err := strconv.Atoi(string(text))
	switch {
	case err != nil || v < 0:
		return 0, damaged(d.path, fmt.Sprintf("its version is %q", text))
	case v > d.version():
		return 0, fsys.E(fsys.Unsupported, fmt.Sprintf("the database %s has version %d, and this daemon supports versions up to %d: "+
			"use the version of agentd that wrote it, or a newer one; nothing was changed", d.path, v, d.version()))
	}
	return v, nil
}

// raise makes an older database one of this version, in one transaction of the
// file: a step that fails leaves all as it was.
func (d *DB) raise() error {
	from := 0
	err := d.file.View(func(tx *bbolt.Tx) (err error) {
		from, err = d.stored(tx.Bucket(metaBucket))
		return err
	})
	if err != nil || from == d.version() && d.seals() {
		return err
	}
	if d.opt.ReadOnly {
		return fsys.E(fsys.Unsupported, fmt.Sprintf("the database %s has version %d, and this needs version %d: start agentd on it once to upgrade it", d.path, from, d.version()))
	}
	err = d.file.Update(func(tx *bbolt.Tx) error {
		if _, err := tx.CreateBucketIfNotExists(sealedBucket); err != nil {
			return err
		}
		for i := max(from-firstVersion, 0); i < len(d.opt.Steps); i++ {
			if err := d.step(tx, d.opt.Steps[i]); err != nil {
				return fsys.Wrap(fsys.Internal, fmt.Sprintf("upgrading it from version %d to %d", firstVersion+i, firstVersion+i+1), err)
			}
		}
		return tx.Bucket(metaBucket).Put(schemaKey, []byte(strconv.Itoa(d.version())))
	})
	if err != nil {
		return fsys.Wrap(fsys.Unavailable, fmt.Sprintf("the database %s could not be upgraded, and was not changed", d.path), err)
	}
	slog.Info("database upgraded", "file", d.path, "from", from, "to", d.version())
	return nil
}

func (d *DB) step(tx *bbolt.Tx, step store.Step) error {
	b := d.newBase(tx)
	t := store.NewTx(d, b)
	err := t.Run(func(tx store.Store) error { return step(context.Background(), tx) })
	if err != nil {
		t.End(false)
		return err
	}
	_, err = b.store(t)
	t.End(err == nil)
	return err
}

// seals reports whether the file has a place for sealed records.
func (d *DB) seals() (yes bool) {
	d.file.View(func(tx *bbolt.Tx) error {
		yes = tx.Bucket(sealedBucket) != nil
		return nil
	})
	return yes
}
