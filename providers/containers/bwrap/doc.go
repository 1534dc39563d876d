//go:build unix

// Package bwrap makes sandboxes with bubblewrap(1), on Linux and without an
// engine: namespaces of their own, a read-only system, and nothing else of this
// machine.
//
// What is inside:
//
//	/usr /bin /lib* /sbin   this machine's, read-only; or all of an image
//	/etc                    what programs need of it, and nobody's secrets
//	/workspace              writable, on this machine's disk
//	/workspace/skills       read-only
//	/tmp /dev/shm           in memory
//	/run/agent9             in memory
//	/agent9/a9              the box, read-only
//	/proc /dev              their own; no device but null, zero, random, tty
//
// An image is a directory with a root file system that the operator names, such
// as debootstrap(8) makes; it is never written to. If there are any, this
// machine's own programs are the image "host".
//
// Programs are user and group 65534 in a user namespace in which there is no
// other, without capabilities, without a way to gain any, and without the
// system calls that led out of sandboxes before. They see their own processes
// only, and no network but a loopback of their own. A sandbox with
// Limits.Network has this machine's network, and all of it: what listens on
// 127.0.0.1 or on an abstract socket can be reached. Its traffic is not counted.
//
// If the daemon is root, the sandbox runs as user 65534 of this machine, and
// its files belong to that; else as the daemon's user.
//
// Memory, processors and the number of processes are limited by control groups
// where the daemon may make them (package cgroup). Where it may not, the number
// of processes is limited by an rlimit, and the memory of each process, but not
// of all together, so that Info does not list it. No file can be longer than
// Limits.Disk; what makes all of them longer is ended by the box, which measures
// them, so that there may be more for a moment.
package bwrap

import "agent9/providers/containers/folder"

// Config says what to run and where.
type Config struct {
	// Dir has the sandboxes; see package folder.
	Dir string
	// Helper is cmd/a9 on this machine: a static program.
	Helper string
	// Program is bubblewrap; empty: bwrap in PATH.
	Program string
	// Images are root file systems by their names; none is called "host".
	Images map[string]string
	// Owner is who the sandboxes are on this machine, if the daemon is root;
	// nil: 65534.
	Owner *folder.Owner
}
