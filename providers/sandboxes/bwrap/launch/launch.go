//go:build linux

// Package launch is what runs between the daemon and bubblewrap, as a process
// of its own: it joins the sandbox's cgroups, so that nothing runs outside
// them, and gives up what rights the daemon has before bubblewrap runs.
//
// Who starts it with a [Stage] has put it in a mount namespace of its own, in
// which no mount is shared with another: as root, or in a user namespace in
// which it is root.
package launch

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// Name is the subcommand of cmd/a9 that calls [Run].
const Name = "launch"

// A Plan is what to do before which program.
type Plan struct {
	Join    []string `json:"join,omitempty"` // cgroup.procs files of the cgroups
	Stage   *Stage   `json:"stage,omitempty"`
	Watch   *Watch   `json:"watch,omitempty"`
	Rlimits []Rlimit `json:"rlimits,omitempty"`
	Drop    *User    `json:"drop,omitempty"`  // whom to become; nil: stay
	Scope   bool     `json:"scope,omitempty"` // see [Scopes]
	Files   int      `json:"files"`           // how many the program is given beyond 0, 1 and 2
	Argv    []string `json:"argv"`            // the program, by its path
}

// Arguments returns the command line with which cmd/a9 follows the plan.
func (p Plan) Arguments() []string {
	text, err := json.Marshal(p)
	if err != nil {
		panic(err) // it has strings and numbers only
	}
	return []string{Name, string(text)}
}

// A User is who to become, with no other groups.
type User struct {
	UID int `json:"uid"`
	GID int `json:"gid"`
}

// An Rlimit is set as soft and hard limit, unless the hard one is lower.
type Rlimit struct {
	Resource int    `json:"resource"`
	Max      uint64 `json:"max"`
}

// Run does what the plan says, in its own place and environment. It returns
// only if that fails.
func Run(plan string) error {
	runtime.LockOSThread() // what dies with its parent dies with this thread
	var p Plan
	if err := json.Unmarshal([]byte(plan), &p); err != nil || len(p.Argv) == 0 {
		return fmt.Errorf("the launch plan is malformed: %w", err)
	}
	for _, procs := range p.Join {
		if err := os.WriteFile(procs, []byte("0"), 0); err != nil {
			return fmt.Errorf("joining the cgroup: %w", err)
		}
	}
	if err := p.Watch.start(); err != nil {
		return fmt.Errorf("measuring the disk: %w", err)
	}
	if p.Stage != nil {
		if err := leave(p.needs()); err != nil {
			return fmt.Errorf("leaving mounts behind: %w", err)
		}
	}
	if err := p.Stage.mount(p.Drop); err != nil {
		return err
	}
	for _, l := range p.Rlimits {
		if err := l.set(); err != nil {
			return fmt.Errorf("limit %d: %w", l.Resource, err)
		}
	}
	if err := p.Drop.become(); err != nil {
		return fmt.Errorf("giving up rights: %w", err)
	}
	if p.Scope {
		if err := scope(); err != nil {
			return err
		}
	}
	// What the daemon itself was given by mistake goes no further.
	if err := unix.CloseRange(uint(3+p.Files), math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("closing files: %w", err)
	}
	err := syscall.Exec(p.Argv[0], p.Argv, os.Environ())
	return fmt.Errorf("%s: %w", p.Argv[0], err)
}

func (l Rlimit) set() error {
	var now unix.Rlimit
	if err := unix.Getrlimit(l.Resource, &now); err != nil {
		return err
	}
	most := min(l.Max, now.Max)
	return unix.Setrlimit(l.Resource, &unix.Rlimit{Cur: most, Max: most})
}

func (u *User) become() error {
	if u == nil {
		return nil
	}
	if err := syscall.Setgroups(nil); err != nil {
		return err
	}
	if err := syscall.Setresgid(u.GID, u.GID, u.GID); err != nil {
		return err
	}
	return syscall.Setresuid(u.UID, u.UID, u.UID)
}
