package fsys

import "context"

// A Lock is an advisory record lock, as fcntl(2) defines them. It stops no read
// or write.
type Lock struct {
	Kind       LockKind
	Start, End uint64 // the last byte; MaxUint64 is the end of the file
	Owner      string // whose it is, and Process, among those of one client
	Process    uint32
}

// LockKind is what a Lock does.
type LockKind uint8

const (
	LockRead   LockKind = iota // excludes LockWrite
	LockWrite                  // excludes both
	LockUnlock                 // gives up what its owner has there
)

// A Locker is a Handle whose file's locks are kept where the file is.
type Locker interface {
	Handle
	// Lock takes, changes or gives up a lock. Not granted: another one is in the
	// way, for which wait waits.
	Lock(ctx context.Context, l Lock, wait bool) (granted bool, err error)
	// LockedBy returns a lock that is in the way of l, or LockUnlock.
	LockedBy(ctx context.Context, l Lock) (Lock, error)
}
