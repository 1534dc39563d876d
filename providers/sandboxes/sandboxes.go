// Package sandboxes is what a maker of sandboxes must implement, and the only
// way to use one: a [Runner], which asks for the money first.
//
// A driver makes a sandbox, runs one program of ours in it, and hands out the
// connection to that program's standard input and output. The program is the
// box (cmd/a9, package box): it speaks 9P there, and all that can be done in
// a sandbox is a file of its tree: commands are run, files are read and
// written, and programs inside reach the agent that they work for. So what a
// sandbox does is written once, for every driver, local or remote; no path on
// this machine is part of it, and a file server that is inside cannot be led
// out.
//
// Drivers are in the packages below. A driver knows one kind of sandbox and
// nothing about sessions, policy or budgets.
package sandboxes

import (
	"context"
	"net"
	"time"

	"agent9/fsys"
)

// A Provider makes sandboxes. It is safe for concurrent use. Errors carry an
// fsys.Code and a reason: NotExist (the image), Permission, Invalid (a limit
// that cannot be had), NoSpace, Timeout, Canceled, Unavailable (the engine).
type Provider interface {
	// Info says what the provider is and whether it can be used now.
	Info(ctx context.Context) (Info, error)

	// Images lists what a sandbox can be made of without a pull.
	Images(ctx context.Context) ([]Image, error)

	// Create makes a sandbox that does not run yet. It pulls the image if it
	// has to and may; progress is given lines for people meanwhile, without
	// newlines, and is not called after Create returned. If Create fails, also
	// because ctx ends, nothing of the sandbox is left.
	Create(ctx context.Context, spec Spec, progress func(line string)) (Sandbox, error)

	// Open returns a sandbox that was made before, also by an earlier run of
	// the program, by its ID; NotExist if there is none.
	Open(ctx context.Context, id string) (Sandbox, error)

	// List returns every sandbox of this daemon's that the provider has,
	// whoever made it: what no session knows is removed at start.
	List(ctx context.Context) ([]Found, error)

	// RemoveWorkspace removes the workspace that persists under this name. One
	// that does not exist is no error; one in use is Busy.
	RemoveWorkspace(ctx context.Context, name string) error
}

// A Sandbox is a place to run commands in. It may run several times, one after
// another; its files are the same each time, but for those in memory (/tmp).
type Sandbox interface {
	// ID finds the sandbox again; see [Provider.Open]. It names neither the
	// agent nor anything of this machine that a user should not see.
	ID() string

	// Name is that of its Spec: whose it is.
	Name(ctx context.Context) (string, error)

	// Start runs the box and returns the connection to it. Closing that ends
	// the run: a sandbox lives no longer than the daemon that pays for it,
	// however the daemon ends. ctx bounds the start only.
	Start(ctx context.Context) (net.Conn, error)

	// Stop ends the run and every process in the sandbox, at once. Stopping
	// what does not run is no error.
	Stop(ctx context.Context) error

	// Remove stops the sandbox and removes all of it, but not a workspace that
	// persists.
	Remove(ctx context.Context) error

	// Usage is what the runs so far have used, as of now or of the end of the
	// last one.
	Usage(ctx context.Context) (Usage, error)
}

// Info is what an agent may know about a provider.
type Info struct {
	Driver  string `json:"driver"`
	Version string `json:"version,omitempty"` // of the engine or program
	Arch    string `json:"arch"`              // GOARCH of what runs inside
	// DefaultImage is for a request that names none; empty: the provider has
	// no images, and every sandbox is made of this machine's own programs.
	DefaultImage string `json:"default_image,omitempty"`
	// Isolated says that what runs inside cannot harm this machine.
	Isolated bool `json:"isolated"`
	// Enforced lists the limits that hold: memory, cpus, pids, disk, network.
	// A request for a limit that cannot be had is refused by who must have it;
	// see services/containers.
	Enforced []string `json:"enforced"`
	// Disk says how the limit of the disk is kept: "image" and "quota" by the
	// kernel, "walk" by measuring again and again, which is late by moments.
	Disk string `json:"disk,omitempty"`
	// Users says who sandboxes are on the machine that they run on: "each" agent
	// its own user, or all of them "one".
	Users string `json:"users,omitempty"`
	// Paths says of which paths of that machine a program inside can learn, in
	// /proc/self/mountinfo: "none" but those of its own system; "engine", where
	// the engine keeps its containers; "provider", where the daemon keeps them.
	Paths string `json:"paths,omitempty"`
	// Network says which network a sandbox has that is given one: its "own"; that
	// of the machine ("host"), with all that listens there; or "scoped", that of
	// the machine without the abstract Unix sockets of others.
	Network string `json:"network,omitempty"`
	// Left names what the provider could not remove: the operator has to see to
	// it. It is in nobody's way.
	Left []string `json:"left,omitempty"`
}

// Image is something that a sandbox can be made of.
type Image struct {
	Name    string    `json:"name"`
	Size    int64     `json:"size_bytes"`
	Created time.Time `json:"created,omitzero"`
}

// A Spec says what sandbox to make.
type Spec struct {
	// Name labels the sandbox, so that List can tell whose it is.
	Name string
	// Agent is whom the sandbox is for: what is one agent's is kept from others.
	Agent string
	Image string // empty: the provider's default
	// Pull allows the provider to fetch an image that it does not have.
	Pull   bool
	Limits Limits
	// Workspace is the name under which /workspace persists from one sandbox
	// to the next. Empty: it goes with the sandbox.
	Workspace string
	// Skills are files that are at /workspace/skills, where no program in the
	// sandbox can change them.
	Skills []File
}

// ErrNotPulled is why there is no sandbox of an image that the provider could
// fetch, and that Spec.Pull does not let it.
var ErrNotPulled = fsys.E(fsys.NotExist, "it is not on this machine, and may not be pulled")

// Users say which user of the machine the sandboxes of an agent are.
type Users interface {
	// User is the number of the user and group that are the agent's, and nobody
	// else's as long as it exists or a provider has anything of theirs.
	User(ctx context.Context, agent string) (int, error)
}

// Limits bound a sandbox. Zero is none.
type Limits struct {
	Memory  int64 // bytes, with what /tmp takes
	Disk    int64 // bytes that /workspace and all else that can be written may have
	CPUs    int64 // thousandths of one
	PIDs    int64 // processes and threads
	Network bool  // whether there is any
}

// A File is a small file by its name, which may have slashes.
type File struct {
	Name string
	Data []byte
}

// Found is a sandbox that List found.
type Found struct {
	ID      string
	Name    string // of its Spec
	Running bool
}

// Usage is what a sandbox has used.
type Usage struct {
	CPU      time.Duration // of all its processes
	Memory   int64         // bytes, the most at any time; 0 if not known
	Sent     int64         // bytes over the network
	Received int64
	OOMKills int64 // processes that the kernel ended for want of memory
	// Wall is how long it has run in all.
	Wall time.Duration
}
