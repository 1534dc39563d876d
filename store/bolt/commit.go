package bolt

import (
	"context"
	"runtime"
	"slices"

	"agent9/fsys"
	"agent9/store"
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

var errGaveUp = fsys.E(fsys.Internal, "the goroutine of a transaction exited, and the transaction was rolled back")

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

// A batch is what is committed together.
type batch struct {
	d   *DB
	ran []*request
	// writing is set while bbolt works: a panic then leaves its locks held.
	writing bool
}

// batch runs r and those that wait, commits what succeeded, and answers them.
func (d *DB) batch(r *request) {
	b := &batch{d: d, ran: []*request{r}}
	err := d.isBroken()
	defer func() { answer(b.ran, err) }()
	if err == nil {
		err = errGaveUp // if one of the functions ends this goroutine
		err = d.guard(b.commit)
	}
	if b.writing {
		err = d.breaks(err)
	}
}

func (b *batch) commit() error {
	b.writing = true
	b.d.kept.shut()
	defer b.d.kept.open()
	tx, err := b.d.file.Begin(true)
	if err != nil {
		return b.failed(err)
	}
	defer tx.Rollback() // after a Commit it does nothing
	committed := b.d.newBase(tx)
	changed := false
	for r := b.ran[0]; r != nil; r = b.another() {
		wrote, err := b.run(r, committed)
		if err != nil {
			return b.failed(err)
		}
		changed = changed || wrote
	}
	if changed {
		b.d.listFree()
		err = tx.Commit()
	}
	return b.failed(err)
}

// failed returns the error of what bbolt did, which has not broken the file
// if it did nothing or found no space.
func (b *batch) failed(err error) error {
	if err == nil {
		b.writing = false
		return nil
	}
	if noSpace(err) {
		b.writing = false
	}
	return b.d.failed(err)
}

// another returns a request that comes with those that ran already.
func (b *batch) another() *request {
	if len(b.ran) >= maxBatch {
		return nil
	}
	r := b.d.next()
	if r == nil {
		runtime.Gosched() // those that were answered last may be about to come again
		r = b.d.next()
	}
	if r != nil {
		b.ran = append(b.ran, r)
	}
	return r
}

// run runs the function of r and puts what it changed into the transaction of
// the file. The error is of the file.
func (b *batch) run(r *request, committed base) (changed bool, err error) {
	r.tx = store.NewTx(b.d, committed)
	b.writing = false
	r.err = r.tx.Run(r.f)
	b.writing = true
	if r.err != nil {
		r.tx.End(false)
		return false, nil
	}
	return committed.store(r.tx)
}

// breaks makes err the end of all writing.
func (d *DB) breaks(err error) error {
	err = fsys.Wrap(fsys.Unavailable, "a write failed, so nothing more is written until the daemon is restarted", err)
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
