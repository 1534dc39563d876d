package bolt

import (
	"sync"

	"go.etcd.io/bbolt"
)

// maxReaders is how many read transactions are kept.
const maxReaders = 8

// readers are read transactions that nobody uses, kept because beginning one
// costs more than most reads. A transaction of the file may have to wait for
// every one that is open, and makes them old: so none is kept while one runs,
// and none is used after it.
type readers struct {
	mu     sync.Mutex
	idle   []*reader
	age    uint64 // counts beginnings and ends of what changes the file
	closed bool   // none is to be kept
}

// A reader is a read transaction of the file, for one goroutine.
type reader struct {
	base
	tx  *bbolt.Tx
	age uint64
}

// take returns a reader of what is committed.
func (d *DB) take() (*reader, error) {
	p := &d.kept
	p.mu.Lock()
	age := p.age
	if n := len(p.idle); n > 0 {
		r := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		return r, nil
	}
	p.mu.Unlock()
	tx, err := d.file.Begin(false)
	if err != nil {
		return nil, err
	}
	r := &reader{tx: tx, age: age}
	defer func() {
		if r.cursor == nil {
			tx.Rollback() // the file is damaged where it begins
		}
	}()
	r.base = d.newBase(tx)
	return r, nil
}

// give keeps r, or ends it.
func (p *readers) give(r *reader) {
	p.mu.Lock()
	keep := !p.closed && r.age == p.age && len(p.idle) < maxReaders
	if keep {
		p.idle = append(p.idle, r)
	}
	p.mu.Unlock()
	if !keep {
		r.tx.Rollback()
	}
}

// shut ends those that are kept, and keeps none until open is called.
func (p *readers) shut() {
	p.mu.Lock()
	idle := p.idle
	p.idle, p.closed = nil, true
	p.age++
	p.mu.Unlock()
	for _, r := range idle {
		r.tx.Rollback()
	}
}

func (p *readers) open() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = false
	p.age++
}
