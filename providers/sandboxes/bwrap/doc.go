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
// If the daemon is root, the sandboxes of each agent run as a user of this
// machine that is the agent's alone (Config.Users); else as the daemon's user.
// What the daemon keeps for an agent has that user's number as its group.
//
// Memory, processors and the number of processes are limited by control groups
// where the daemon may make them (package cgroup). Where it may not, the number
// of processes is limited by an rlimit, and the memory of each process, but not
// of all together, so that Info does not list it.
//
// # Ways
//
// How a sandbox is made of this machine's files is found by trying; Info says
// what came of it, and the first that works is taken:
//
//  1. root, with loop devices and mkfs.ext4: a workspace that has a limit is an
//     ext4 file system in a sparse file, mounted where only the sandbox sees it. It
//     is gone with the sandbox's last process, however that ends. All else is shown by
//     overlays, so that mountinfo has no path of this machine.
//  2. overlays (as a user without rights in a user namespace: Linux 5.11): the
//     workspace is a directory, which is measured by walking it.
//  3. bind mounts, and walking: mountinfo says where things are.
//
// Project quotas are not used: they cover one file system of one kind, set up
// beforehand, and an image holds everywhere that root can mount. A directory
// from before stays one, is measured by walking, and becomes its agent's when it
// is used. A limit that changes is that of the image the next time; if there is
// more in it than that, it has no room but can be read and removed from. Each
// image has an inode for 8 KiB.
//
// The walk runs outside of the sandbox, with all rights to what is in it. No file
// can be longer than Limits.Disk, and the total can be more for a moment.
package bwrap

import "agent9/providers/sandboxes"

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
	// Users says who the sandboxes of each agent are on this machine, if the
	// daemon is root; nil: all are 65534.
	Users sandboxes.Users
}
