package bolt

import (
	"context"
	"runtime"
	"slices"

	"agent9/fsys"
	"agent9/store"

	"go.etcd.io/bbolt"
)

// maxBatch is how many transactions are committed together at most.
const maxBatch = 512

// A request is an Update that waits.
type request struct {
	f    func(tx store.Store) error
	tx   *store.Tx // once it has begun
	err  error     // of f
	done chan error
}

func (d *DB) Update(ctx context.Context, f func(tx store.Store) error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	r := &request{f: f, done: make(chan error, 1)}
	if err := d.enqueue(r); err != nil {
		return err
	}
	select {
	case err := <-r.done:
		return err
	case <-ctx.Done():
		if d.withdraw(r) {
			return context.Cause(ctx)
		}
		return <-r.done // it has begun: the answer is what happens
	}
}

func (d *DB) enqueue(r *request) error {
	d.mu.Lock()
	switch {
	case d.closed:
		d.mu.Unlock()
		return errClosed
	case d.broken != nil:
		d.mu.Unlock()
		return d.broken
	}
	d.queue = append(d.queue, r)
	d.mu.Unlock()
	d.wake()
	return nil
}

func (d *DB) wake() {
	select {
	case d.queued <- struct{}{}:
	default:
	}
}

// withdraw takes r from the queue, if it is still there.
func (d *DB) withdraw(r *request) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	i := slices.Index(d.queue, r)
	if i < 0 {
		return false
	}
	d.queue = slices.Delete(d.queue, i, i+1)
	return true
}

// next takes the first request from the queue, if there is one.
func (d *DB) next() *request {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.queue) == 0 {
		d.queue = nil
		return nil
	}
	r := d.queue[0]
	d.queue[0] = nil
	d.queue = d.queue[1:]
	return r
}

// commit is the committer: it ends when the database is closed and nothing
// waits any more.
func (d *DB) commit() {
	ended := false
	defer func() {
		if ended {
			close(d.done)
		} else {
			go d.commit() // a function that it ran ended the goroutine
		}
	}()
	for {
		if r := d.next(); r != nil {
			d.batch(r)
			continue
		}
		d.mu.Lock()
		ended = d.closed && len(d.queue) == 0
		d.mu.Unlock()
		if ended {
			return
		}
		<-d.queued
	}
}

// batch runs r and those that wait, commits what succeeded, and answers them.
func (d *DB) batch(r *request) {
	var ran []*request
	err := fsys.E(fsys.Internal, "the program gave up while it changed the database, and nothing was changed")
	defer func() { answer(ran, err) }()
	err = d.guard(func() error {
		if d.isBroken() != nil {
			ran = append(ran, r)
			return d.isBroken()
		}
		tx, err := d.file.Begin(true)
		if err != nil {
			ran = append(ran, r)
			return d.failed(err)
		}
		defer tx.Rollback() // after a Commit it does nothing
		b := base{tx.Bucket(dataBucket)}
		changed := false
		for ; r != nil; r = d.another(len(ran)) {
			ran = append(ran, r)
			wrote, err := r.run(d, b)
			if err != nil {
				return d.breaks(err)
			}
			changed = changed || wrote
		}
		if !changed {
			return nil
		}
		return d.write(tx)
	})
}

// another returns a request that comes with those that ran already.
func (d *DB) another(ran int) *request {
	if ran >= maxBatch {
		return nil
	}
	if r := d.next(); r != nil {
		return r
	}
	runtime.Gosched() // those that were answered last may be about to come again
	return d.next()
}

// run runs the function of r on b and puts there what it changed. The error is
// of the file.
func (r *request) run(d *DB, b base) (changed bool, err error) {
	r.tx = store.NewTx(d, b)
	if r.err = r.tx.Run(r.f); r.err != nil {
		r.tx.End(false)
		return false, nil
	}
	for key, value := range r.tx.Changes() {
		if value == nil {
			err = b.bucket.Delete([]byte(key))
		} else {
			err = b.bucket.Put([]byte(key), value)
		}
		if err != nil {
			return false, err
		}
		changed = true
	}
	return changed, nil
}

// write commits, and remembers when nobody knows what that came to.
func (d *DB) write(tx *bbolt.Tx) error {
	whole := false
	defer func() {
		if !whole {
			d.breaks(fsys.E(fsys.Unavailable, "the program broke down while it wrote"))
		}
	}()
	err := tx.Commit()
	whole = true
	if err == nil {
		return nil
	}
	if noSpace(err) {
		return d.failed(err)
	}
	return d.breaks(err)
}

// breaks makes err the end of all writing.
func (d *DB) breaks(err error) error {
	err = fsys.Wrap(fsys.Unavailable, "nothing more is written until the daemon has been restarted, because writing failed", d.failed(err))
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.broken == nil {
		d.broken = err
	}
	return d.broken
}

func (d *DB) isBroken() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.broken
}

// answer ends those that ran. err is what became of the file.
func answer(ran []*request, err error) {
	for _, r := range ran {
		if r.tx != nil && r.err == nil {
			r.tx.End(err == nil)
		}
	}
	for _, r := range ran {
		if r.err != nil {
			r.done <- r.err
		} else {
			r.done <- err
		}
	}
}
