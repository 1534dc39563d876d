package sandboxes

import (
	"path"
	"strconv"
	"strings"
	"time"
)

// A Command is what to run in a sandbox.
type Command struct {
	// Argv is the program, looked up in PATH if it has no slash, and its
	// arguments. It has at least one element.
	Argv []string `json:"argv"`
	// Env is added to what every command has, as K=V; the last of a key holds.
	Env []string `json:"env,omitempty"`
	// Bare leaves out of the environment all but PATH that the image, or
	// anything else than Env, has put there.
	Bare bool `json:"bare,omitempty"`
	// Dir is where it runs; a relative one is below the workspace, which is
	// also the default.
	Dir string `json:"dir,omitempty"`
	// TTY gives it a terminal of this size: its input, output and errors are
	// one, and Ctrl-C and the like are characters of the input.
	TTY *Size `json:"tty,omitempty"`
	// Timeout ends it with code 124: SIGTERM for it and all its descendants,
	// and SIGKILL for what is left after two seconds. Zero is none.
	Timeout time.Duration `json:"timeout_ns,omitempty"`
}

// A Size is that of a terminal.
type Size struct {
	Rows uint16 `json:"rows"`
	Cols uint16 `json:"cols"`
}

// Streams are what a command is connected to. All of them may be zero.
type Streams struct {
	// Stdin is read until it ends; nil is an input that has ended. A read that
	// does not return outlasts the Exec that began it.
	Stdin interface {
		Read(p []byte) (int, error)
	}
	// Out is given what the command writes to 1 and 2 (all is 1 with a TTY),
	// in the order in which it came, one call at a time; p is Out's until it
	// returns. The command waits for an Out that is slow: nothing is lost. An
	// error ends the command, and Exec returns it.
	Out func(fd int, p []byte) error
	// Control is what is done to the command while it runs, one after another.
	Control <-chan Control
}

// A Control is something done to a command that runs.
type Control struct {
	// Signal is sent to the command and its process group, by its name, such
	// as INT; KILL goes to all descendants.
	Signal string
	// Size, without a Signal, is that of its terminal from now on.
	Size Size
	// Done, if there is one, is given nil when it was done, or why it could not
	// be; it must have room for that. Of a command that ends meanwhile nothing
	// may come.
	Done chan<- error
}

// line is what a command's ctl is told.
func (c Control) line() string {
	if c.Signal != "" {
		return "kill " + strings.Join(strings.Fields(c.Signal), "")
	}
	return "resize " + strconv.Itoa(int(c.Size.Rows)) + " " + strconv.Itoa(int(c.Size.Cols))
}

// An Exit is how a command ended.
type Exit struct {
	// Code is 124 after a timeout, 128 and the signal's number after a
	// signal, 126 if the program cannot be run, and 127 if there is none.
	Code int `json:"code"`
	// Signal is the name of the one that ended it, such as SIGKILL.
	Signal string `json:"signal,omitempty"`
	// Reason says what else is known: ReasonTimeout, ReasonOOM, ReasonDisk,
	// ReasonKilled.
	Reason string        `json:"reason,omitempty"`
	Wall   time.Duration `json:"wall_ns"`
	CPU    time.Duration `json:"cpu_ns"` // of it and the descendants that it waited for
	// MaxRSS is the largest resident set of one of these, in bytes.
	MaxRSS int64 `json:"max_rss"`
}

// Reasons of an Exit.
const (
	ReasonTimeout = "timeout" // Command.Timeout passed
	ReasonOOM     = "oom"     // the kernel ended one of its processes for want of memory
	ReasonDisk    = "disk"    // the sandbox had, or a file would have had, more on its disk than it may
	ReasonKilled  = "killed"  // somebody asked for it
)

// Where says where things are in a sandbox, as the programs in it see them.
type Where struct {
	// Root is the directory that Box.Files begins at.
	Root      string `json:"root"`
	Workspace string `json:"workspace"`
	Home      string `json:"home"`
	Tmp       string `json:"tmp"`
	Skills    string `json:"skills,omitempty"`
	// Socket is the agent's, and Helper the program that speaks to it: cmd/a9.
	Socket string `json:"socket,omitempty"`
	Helper string `json:"helper,omitempty"`
}

// Inside is where things are in a sandbox that has a root file system of its
// own.
func Inside() Where {
	return Where{
		Root: "/", Workspace: "/workspace", Home: "/workspace", Tmp: "/tmp", Skills: "/workspace/skills",
		Socket: "/run/agent9/agent.sock", Helper: "/agent9/a9",
	}
}

// Path returns the path below Box.Files of what programs call name: a path
// from the root or, if it is relative, from the workspace. ok is false if that
// is outside.
func (w Where) Path(name string) (below string, ok bool) {
	if !path.IsAbs(name) {
		name = path.Join(w.Workspace, name)
	}
	name, root := path.Clean(name), path.Clean(w.Root)
	switch {
	case root == "/":
		return name[1:], true
	case name == root:
		return "", true
	}
	return strings.CutPrefix(name, root+"/")
}
