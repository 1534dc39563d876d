package bolt

import "go.etcd.io/bbolt"

// Commits returns how many transactions of the file there were.
func (d *DB) Commits() (n int) {
	d.file.View(func(tx *bbolt.Tx) error {
		n = tx.ID()
		return nil
	})
	return n
}

// Queued returns how many transactions wait.
func (d *DB) Queued() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.queue)
}
