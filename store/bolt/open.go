package bolt

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"agent9/fsys"

	"go.etcd.io/bbolt"
	boltErrors "go.etcd.io/bbolt/errors"
)

// checkedSize is up to what size a database is read through when it is opened.
// Damage in a larger one is found when it is met.
const checkedSize = 1 << 30

// Open opens the database at path, and makes it, readable for its owner alone,
// if there is none. It does not wait for another process that has it open:
// that is fsys.Busy, and the reason names the process where the system tells.
// A file that is not a whole database is fsys.Unavailable, one of an unknown
// format fsys.Unsupported; such a file is left as it is.
func Open(path string) (*DB, error) {
	d := &DB{path: path, done: make(chan struct{}), queued: make(chan struct{}, 1)}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err = create(path); err == nil {
			info, err = os.Stat(path)
		}
	}
	switch {
	case err != nil:
		return nil, fsys.Wrap(fsys.Unavailable, "the database "+path, err)
	case !info.Mode().IsRegular():
		return nil, damaged(path, "it is not a regular file")
	case info.Size() == 0:
		return nil, damaged(path, "it is empty")
	}
	if err := d.guard(d.open); err != nil {
		return nil, err
	}
	go d.commit()
	return d, nil
}

// open opens and checks the file that exists at d.path.
func (d *DB) open() (err error) {
	var file *os.File
	whole := false
	defer func() {
		if !whole && file != nil {
			// When bbolt panicked the file stays mapped, and that keeps the lock.
			syscall.Flock(int(file.Fd()), syscall.LOCK_UN)
			file.Close()
		}
	}()
	o := options()
	o.OpenFile = func(path string, flag int, perm fs.FileMode) (_ *os.File, err error) {
		file, err = os.OpenFile(path, flag, perm)
		return file, err
	}
	d.file, err = bbolt.Open(d.path, 0o600, o)
	switch {
	case errors.Is(err, boltErrors.ErrTimeout):
		return fsys.E(fsys.Busy, fmt.Sprintf("the database %s is in use by another daemon%s: stop that one, or give this one a folder of its own", d.path, holder(d.path)))
	case errors.Is(err, fs.ErrPermission):
		return fsys.Wrap(fsys.Permission, "the database "+d.path, err)
	case err != nil:
		return damaged(d.path, err.Error())
	}
	if err := d.file.View(d.check); err != nil {
		d.file.Close()
		return err
	}
	whole = true
	return nil
}

// options say what is not as bbolt has it by default: the shortest wait for a
// lock that is not "for ever", and what suits many small keys.
func options() *bbolt.Options {
	return &bbolt.Options{Timeout: time.Nanosecond, FreelistType: bbolt.FreelistMapType, NoStatistics: true}
}

// check reports what is wrong with the file.
func (d *DB) check(tx *bbolt.Tx) error {
	info, err := os.Stat(d.path)
	if err != nil {
		return fsys.Wrap(fsys.Unavailable, "the database "+d.path, err)
	}
	if info.Size() < tx.Size() {
		return damaged(d.path, fmt.Sprintf("it has %d bytes and should have %d", info.Size(), tx.Size()))
	}
	meta, data := tx.Bucket(metaBucket), tx.Bucket(dataBucket)
	if meta == nil || data == nil {
		return damaged(d.path, "it is a database of another program")
	}
	if v := string(meta.Get(schemaKey)); v != schema {
		return fsys.E(fsys.Unsupported, fmt.Sprintf("the database %s has format %q, and this daemon knows only %q: use the version that wrote it", d.path, v, schema))
	}
	if tx.Size() > checkedSize {
		return nil
	}
	last := ""
	for key := range (base{data}).Range("", "") {
		if key <= last {
			return damaged(d.path, "its keys are not in order")
		}
		last = key
	}
	return nil
}

func damaged(path, how string) error {
	return fsys.E(fsys.Unavailable, fmt.Sprintf("the file %s is not a whole database of this program (%s): put a copy of it back, or move it away to start with an empty one; it was not changed", path, how))
}

// create makes an empty database at path. It appears there whole or not at
// all, so that an empty or short file always is one that was damaged.
func create(path string) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".new-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	f.Close()
	db, err := bbolt.Open(f.Name(), 0o600, options())
	if err != nil {
		return err
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		if _, err := tx.CreateBucket(dataBucket); err != nil {
			return err
		}
		meta, err := tx.CreateBucket(metaBucket)
		if err != nil {
			return err
		}
		return meta.Put(schemaKey, []byte(schema))
	})
	if cerr := db.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	// Unlike a rename, a link replaces nothing: of two daemons that start at
	// once, one makes the file.
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(filepath.Dir(path))
}

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}

// noSpace reports whether err says that the disk, or what may be used of it,
// is full. Where bbolt enlarges the file it keeps only the text of an error.
func noSpace(err error) bool {
	for _, full := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG} {
		if errors.Is(err, full) || strings.HasSuffix(err.Error(), full.Error()) {
			return true
		}
	}
	return false
}
