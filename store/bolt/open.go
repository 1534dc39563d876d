package bolt

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"agent9/fsys"
	"agent9/store"

	"go.etcd.io/bbolt"
	boltErrors "go.etcd.io/bbolt/errors"
)

// checkedSize is up to what size a database is read through when it is opened.
// Damage in a larger one is found when it is met.
const checkedSize = 1 << 30

// Options say how a database is opened.
type Options struct {
	// Steps raise what is stored from version 1 to 2, from 2 to 3, and so on.
	Steps []store.Step
	// ReadOnly opens a database that is there and changes nothing of the file;
	// others may have it open so, too. One that a step would raise is refused.
	ReadOnly bool
	// Existing refuses to make a database.
	Existing bool
	// Where names the file that a key belongs to, for a person; "" if it is not
	// known. What it reads of s may be damaged.
	Where func(ctx context.Context, s store.Store, key string) string
}

// Open is [OpenWith] without options.
func Open(path string) (*DB, error) { return OpenWith(path, Options{}) }

// OpenWith opens the database at path, and makes it, readable for its owner alone,
// if there is none. It does not wait for another process that has it open:
// that is fsys.Busy, and the reason names the process where the system tells.
// A file that is not a whole database is fsys.Unavailable, one of a newer
// version fsys.Unsupported; such a file is left as it is. An older one is
// raised, at once or not at all.
func OpenWith(path string, opt Options) (*DB, error) {
	d := &DB{path: path, opt: opt, done: make(chan struct{}), queued: make(chan struct{}, 1)}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) && !opt.ReadOnly && !opt.Existing {
		if err = create(path, d.version()); err == nil {
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
		if file, err = os.OpenFile(path, flag, perm); err == nil {
			err = d.locked(file)
		}
		if err == nil {
			err = d.whole(file) // before bbolt follows its pages
		}
		return file, err
	}
	o.ReadOnly, o.PreLoadFreelist = d.opt.ReadOnly, d.opt.ReadOnly
	d.file, err = bbolt.Open(d.path, 0o600, o)
	switch {
	case errors.Is(err, boltErrors.ErrTimeout):
		return fsys.E(fsys.Busy, fmt.Sprintf("the database %s is in use by another daemon%s: stop that one, or give this one a folder of its own", d.path, holder(d.path)))
	case errors.Is(err, fs.ErrPermission):
		return fsys.Wrap(fsys.Permission, "the database "+d.path, err)
	case errors.As(err, new(*fsys.Error)):
		return err
	case err != nil:
		return damaged(d.path, err.Error())
	}
	if err = d.file.View(d.check); err == nil {
		err = d.raise()
	}
	if err != nil {
		d.file.Close()
		return err
	}
	whole = true
	return nil
}

// lockWait is how long the lock of another daemon is waited for: a program
// that one was about to start when it was killed has its files, and so the
// lock, for a moment longer.
const lockWait = time.Second

// locked waits for the lock of the file, which bbolt then takes once more.
func (d *DB) locked(file *os.File) error {
	how := syscall.LOCK_EX
	if d.opt.ReadOnly {
		how = syscall.LOCK_SH
	}
	for end := time.Now().Add(lockWait); ; time.Sleep(lockPause) {
		err := syscall.Flock(int(file.Fd()), how|syscall.LOCK_NB)
		switch {
		case err == nil || !errors.Is(err, syscall.EWOULDBLOCK):
			return err
		case time.Now().After(end):
			return boltErrors.ErrTimeout
		}
	}
}

// lockPause is how often that is tried.
const lockPause = 50 * time.Millisecond

// options say what is not as bbolt has it by default: a wait for a lock that
// is not "for ever", and what suits many small keys.
func options() *bbolt.Options {
	return &bbolt.Options{Timeout: lockWait, FreelistType: bbolt.FreelistMapType}
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
	meta, plain := tx.Bucket(metaBucket), tx.Bucket(plainBucket)
	if meta == nil || plain == nil {
		return damaged(d.path, "it is a database of another program")
	}
	first, _ := plain.Cursor().First()
	d.mixed.Store(first != nil)
	_, err = d.stored(meta)
	return err
}

func damaged(path, how string) error {
	return fsys.E(fsys.Unavailable, fmt.Sprintf("the file %s is not a complete agentd database (%s): restore it from a backup, or move it away to start with an empty one; it was not changed", path, how))
}

// create makes an empty database at path. It appears there whole or not at
// all, so that an empty or short file always is one that was damaged.
func create(path string, version int) error {
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
		for _, name := range [][]byte{sealedBucket, plainBucket} { // without that, an older daemon takes it for damaged
			if _, err := tx.CreateBucket(name); err != nil {
				return err
			}
		}
		meta, err := tx.CreateBucket(metaBucket)
		if err != nil {
			return err
		}
		return meta.Put(schemaKey, []byte(strconv.Itoa(version)))
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
