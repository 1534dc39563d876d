package bolt

// mostListed is how many free pages are listed in the file with each commit.
// The list is sorted and written as a whole, so that a long one, after much was
// deleted, costs more than what is committed. With more free pages than that
// the file is without a list, until it is closed in order; who opens it after a
// crash finds them by going through all that are in use.
const mostListed = 512

// listFree says whether the next commit writes the list of free pages. It is
// for who commits.
func (d *DB) listFree() {
	s := d.file.Stats()
	d.file.NoFreelistSync = s.FreePageN+s.PendingPageN > mostListed
}

// listAllFree writes the list that the last commit left out. If it cannot be
// written nothing is lost.
func (d *DB) listAllFree() {
	if !d.file.NoFreelistSync || d.isBroken() != nil {
		return
	}
	d.file.NoFreelistSync = false
	d.guard(func() error {
		tx, err := d.file.Begin(true)
		if err != nil {
			return err
		}
		defer tx.Rollback() // after a Commit it does nothing; of a damaged file it gives up the lock
		return tx.Commit()
	})
}
