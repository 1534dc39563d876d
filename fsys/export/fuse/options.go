// Package fuse shows a tree to the kernel of this machine, so that every
// program can use it as files: by /dev/fuse on Linux, macFUSE on macOS and
// fusefs on FreeBSD.
//
//	m, err := fuse.Mount(ctx, tree.Root(), "/n/alice", fuse.Options{})
//	…
//	err = m.Unmount() // or the end of ctx, or umount(8)
//
// What a program can rely on:
//
//   - An interrupt (Ctrl-C, kill) cancels the context of the call that it
//     interrupts: a blocked read returns at once, other calls get a moment to
//     end by themselves first.
//   - Every open, stat and listing asks the tree, and so sees what others have
//     changed before it. All writes go straight to the handle, and so do reads
//     of what has no [fsys.Info].Version, whatever the size of the file.
//   - On Linux the kernel caches what has a Version, Stored files and their
//     directories. What others change may be seen late in two cases, by half a
//     second: a stat of a name that was listed within that time, and a read from
//     a file that was opened before the change. What is done through the mount is
//     seen at once. fstat(2) of an open file can fail with ESTALE, once, if another
//     client has replaced the file in the second or two since its name was looked up.
//   - close(2), and each close of a copy of a descriptor, is Sync, whose error
//     it returns. The last one is Close.
//   - While one program waits in a write to a Message file, others can open,
//     write and close the same file.
//   - Locks (fcntl(2), flock(2)) exclude whoever else uses the file, by any mount
//     or protocol, and need a file that is open for them. Who has just got one reads
//     what its last holder has written. They go with the daemon.
//   - Inode numbers are a hash of where a file is and of [fsys.Info].Gen: the
//     same for as long as a name means the same file.
//   - A rename to another directory is EXDEV, on which mv(1) copies. There are
//     no links, devices and extended attributes.
package fuse

import (
	"log"

	"agent9/fsys"
	"agent9/fsys/locks"
	"agent9/fsys/share"
)

// Options says how a tree is shown. The zero value is what a user wants who
// mounts a tree for herself.
type Options struct {
	// Caller is in whose name everything is done that comes through the mount.
	Caller fsys.Caller
	// Owner is to whom every file belongs; nil means to this process's user.
	Owner *Owner
	// AllowOther lets every user in, and has the kernel check the permission
	// bits that the tree shows. Without it, only this process's user gets in.
	AllowOther bool
	// Locks has the locks of a tree that is in this process too, and ID says
	// which directory its root is, if that does not know. nil: they are this mount's
	// own. Those of a tree elsewhere are kept there.
	Locks *locks.Table
	ID    fsys.ID
	// FsName is the source in the system's table of mounts; "agent9" if empty.
	FsName string
	// Part takes account of what is kept for what the kernel has open; nil: nobody
	// counts.
	Part *share.Part
	// Debug, if set, is told of every request and reply.
	Debug *log.Logger
}

// Owner is a user and a group by number.
type Owner struct{ UID, GID uint32 }
