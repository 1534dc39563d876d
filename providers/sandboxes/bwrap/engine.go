//go:build linux

package bwrap

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"agent9/fsys"
	"agent9/providers/sandboxes"
	"agent9/providers/sandboxes/box"
	"agent9/providers/sandboxes/bwrap/cgroup"
	"agent9/providers/sandboxes/bwrap/launch"
	"agent9/providers/sandboxes/folder"
)

// nobody is the user and group inside, and on this machine if the daemon is
// root.
const nobody = 65534

// thisMachine is the image of this machine's own programs.
const thisMachine = "host"

// What the box and bubblewrap take of the limits for themselves.
const (
	ownPIDs   = 48
	ownData   = 256 << 20 // address space that is for writing, of which it uses little
	minMemory = 16 << 20
)

// engine is bubblewrap's [folder.Engine].
type engine struct {
	program string
	helper  string
	systems map[string]string // root file systems
	images  *images
	groups  *cgroup.Tree
	root    bool // the daemon is
	scratch func() (string, error)
	drop    func(string)

	choosing fsys.Mutex // guards chosen
	chosen   *choice
}

// oldOwner is who sandboxes are that are no agent's, or of which it is not
// recorded whose they are.
func (e *engine) oldOwner() *folder.Owner {
	if !e.root {
		return nil
	}
	return &folder.Owner{UID: nobody, GID: nobody}
}

var _ folder.Engine = (*engine)(nil)

// check refuses a sandbox that cannot be made.
func (e *engine) check(spec sandboxes.Spec) error {
	if spec.Image != "" && spec.Image != thisMachine {
		if _, ok := e.systems[spec.Image]; !ok {
			return fsys.E(fsys.NotExist, "there is no image "+spec.Image+" for bubblewrap: choose one from the images file, or none to use this machine's own programs")
		}
	}
	if m := spec.Limits.Memory; m > 0 && m < minMemory {
		return fsys.E(fsys.Invalid, fmt.Sprintf("a sandbox needs at least %d MB of memory", minMemory>>20))
	}
	return nil
}

// enforces lists the limits that hold; see [sandboxes.Info].
func (e *engine) enforces() []string {
	list := e.groups.Enforces()
	if !slices.Contains(list, "pids") && e.countsPIDs() {
		list = append(list, "pids")
	}
	return append(list, "disk", "network")
}

// countsPIDs reports whether an rlimit bounds the processes of one sandbox.
// Before Linux 5.14 it bounded all processes of a user.
func (e *engine) countsPIDs() bool {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return false
	}
	var major, minor int
	fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &major, &minor)
	return major > 5 || major == 5 && minor >= 14
}

// Begin prepares a run of the box; see [folder.Engine].
func (e *engine) Begin(ctx context.Context, place folder.Place) (folder.Run, error) {
	c, err := e.choose(ctx)
	if err != nil {
		return nil, err
	}
	return e.begin(ctx, c.way, place)
}

func (e *engine) begin(ctx context.Context, w way, place folder.Place) (folder.Run, error) {
	program, err := exec.LookPath(e.program)
	if err != nil {
		return nil, noProgram
	}
	r := &run{known: make(chan struct{})}
	if err := e.prepare(ctx, r, w, program, place); err != nil {
		r.Close()
		return nil, fsys.Wrap(fsys.Unavailable, "preparing the sandbox", err)
	}
	return r, nil
}

func (e *engine) prepare(ctx context.Context, r *run, w way, program string, place folder.Place) error {
	l := place.Limits
	pids := l.PIDs
	if pids > 0 {
		pids += ownPIDs
	}
	group, err := e.groups.Make(place.ID, cgroup.Limits{Memory: l.Memory, CPUs: l.CPUs, PIDs: pids})
	if err != nil {
		return err
	}
	r.group = group
	plan := launch.Plan{Join: group.Procs(), Rlimits: e.rlimits(l)}
	in := sources{workspace: place.Workspace, skills: place.Skills, helper: e.helper}
	if place.Owner != nil {
		plan.Drop = &launch.User{UID: place.Owner.UID, GID: place.Owner.GID}
	}
	if w.stage {
		plan.Stage = &launch.Stage{Dir: "/tmp"}
		in.skills = plan.Stage.Add(launch.Show{Path: place.Skills, How: w.readable})
		in.helper = plan.Stage.Add(w.file(e.helper))
		in.find = func(path string) string { return plan.Stage.Add(launch.Show{Path: path, How: w.readable}) }
		if in.workspace, err = e.show(ctx, w, place, plan.Stage); err != nil {
			return err
		}
	}
	args, err := e.arguments(r, place, in)
	if err != nil {
		return err
	}
	inside, err := e.inside(r, place, &plan)
	if err != nil {
		return err
	}
	plan.Files = len(r.files.list)
	plan.Argv = slices.Concat([]string{program}, args, []string{"--"}, inside)
	r.cmd = exec.Command(e.helper, plan.Arguments()...)
	r.cmd.Dir = "/"
	r.cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin", "LANG=C.UTF-8"}
	r.cmd.ExtraFiles = r.files.list
	r.cmd.SysProcAttr = e.namespaces(w)
	return nil
}

// namespaces are those that the launch is in: mounts of its own if it has a
// stage, and a user namespace in which it may mount if the daemon may not.
func (e *engine) namespaces(w way) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setsid: true}
	switch {
	case w.stage && e.root:
		attr.Unshareflags = syscall.CLONE_NEWNS
	case w.stage:
		attr.Cloneflags = syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS
		attr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	return attr
}

// rlimits are what bubblewrap and all in the sandbox inherit.
func (e *engine) rlimits(l sandboxes.Limits) []launch.Rlimit {
	list := []launch.Rlimit{{Resource: unix.RLIMIT_CORE, Max: 0}}
	if l.Disk > 0 {
		list = append(list, launch.Rlimit{Resource: unix.RLIMIT_FSIZE, Max: uint64(l.Disk)})
	}
	return list
}

// inside is the command that bubblewrap runs in the sandbox. Limits that
// depend on the user are set there, where it is another one than outside.
func (e *engine) inside(r *run, place folder.Place, outside *launch.Plan) ([]string, error) {
	l, where := place.Limits, sandboxes.Inside()
	setup := sandboxes.Setup{Where: where}
	if info, err := os.Stat(place.Workspace); err == nil && info.IsDir() && l.Disk > 0 {
		setup.Disk = l.Disk
		if outside.Stage != nil { // where there is somebody who sees everything
			in, out, err := r.pipe()
			if err != nil {
				return nil, err
			}
			setup.Measured = in
			outside.Watch = &launch.Watch{Args: []string{box.Measure, where.Workspace}, Dir: place.Workspace, Out: out}
		}
	}
	command := setup.Argv(where.Helper)
	have := e.groups.Enforces()
	plan := launch.Plan{Argv: command, Files: setup.Measured, Scope: l.Network && launch.Scopes()}
	if l.PIDs > 0 && !slices.Contains(have, "pids") {
		plan.Rlimits = append(plan.Rlimits, launch.Rlimit{Resource: unix.RLIMIT_NPROC, Max: uint64(l.PIDs + ownPIDs)})
	}
	if l.Memory > 0 && !slices.Contains(have, "memory") {
		plan.Rlimits = append(plan.Rlimits, launch.Rlimit{Resource: unix.RLIMIT_DATA, Max: uint64(l.Memory) + ownData})
	}
	if plan.Rlimits == nil && !plan.Scope {
		return command, nil
	}
	return append([]string{where.Helper}, plan.Arguments()...), nil
}

// Recover ends what an earlier daemon left; see [folder.Engine].
func (e *engine) Recover(place folder.Place, last folder.Process) sandboxes.Usage {
	last.Kill() // and what it watches dies with it
	g := e.groups.Group(place.ID)
	g.Kill()
	used := usage(g)
	g.Remove()
	return used
}

func usage(g *cgroup.Group) sandboxes.Usage {
	u := g.Usage()
	return sandboxes.Usage{CPU: u.CPU, Memory: u.Memory, OOMKills: u.OOMKills}
}

// advice says what on this machine forbids sandboxes.
func advice() string {
	for _, why := range []struct{ file, forbids, advice string }{
		{"kernel/unprivileged_userns_clone", "0", "users may not make namespaces here: set sysctl kernel.unprivileged_userns_clone=1"},
		{"user/max_user_namespaces", "0", "user namespaces are switched off here: set sysctl user.max_user_namespaces to 10000 or so"},
		{"kernel/apparmor_restrict_unprivileged_userns", "1", "AppArmor forbids user namespaces to programs without a profile: give bwrap one, or set sysctl kernel.apparmor_restrict_unprivileged_userns=0"},
	} {
		if p, err := os.ReadFile("/proc/sys/" + why.file); err == nil && strings.TrimSpace(string(p)) == why.forbids {
			return " (" + why.advice + ")"
		}
	}
	for _, file := range []string{"/.dockerenv", "/run/.containerenv"} {
		if _, err := os.Stat(file); err == nil {
			return " (this is a container: its engine must allow user namespaces, and mounts of /proc, in it)"
		}
	}
	return ""
}
