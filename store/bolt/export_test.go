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

// PagesWritten is how many pages commits have taken.
func (d *DB) PagesWritten() int {
	s := d.file.Stats()
	return int(s.TxStats.GetPageAlloc()) / d.file.Info().PageSize
}

// FreePages is how many pages are free, or will be.
func (d *DB) FreePages() int {
	s := d.file.Stats()
	return s.FreePageN + s.PendingPageN
}
