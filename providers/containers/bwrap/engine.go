//go:build linux

package bwrap

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"agent9/fsys"
	"agent9/providers/containers"
	"agent9/providers/containers/bwrap/cgroup"
	"agent9/providers/containers/bwrap/launch"
	"agent9/providers/containers/folder"
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
	images  map[string]string
	owner   *folder.Owner // nil: the daemon is not root
	groups  *cgroup.Tree
}

var _ folder.Engine = (*engine)(nil)

// check refuses a sandbox that cannot be made.
func (e *engine) check(spec containers.Spec) error {
	if spec.Image != "" && spec.Image != thisMachine {
		if _, ok := e.images[spec.Image]; !ok {
			return fsys.E(fsys.NotExist, "there is no image "+spec.Image+" for bubblewrap: the images file lists those that there are, and without one this machine's own programs are used")
		}
	}
	if m := spec.Limits.Memory; m > 0 && m < minMemory {
		return fsys.E(fsys.Invalid, fmt.Sprintf("a sandbox needs at least %d bytes of memory", minMemory))
	}
	return nil
}

// enforces lists the limits that hold; see [containers.Info].
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
func (e *engine) Begin(_ context.Context, place folder.Place) (folder.Run, error) {
	program, err := exec.LookPath(e.program)
	if err != nil {
		return nil, fsys.E(fsys.Unavailable, "bubblewrap is not installed: install the package bubblewrap, or name the program")
	}
	r := &run{known: make(chan struct{})}
	if err := e.prepare(r, program, place); err != nil {
		r.Close()
		return nil, fsys.Wrap(fsys.Unavailable, "preparing the sandbox", err)
	}
	return r, nil
}

func (e *engine) prepare(r *run, program string, place folder.Place) error {
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
	find := func(path string) string { return path }
	if e.owner != nil {
		plan.Drop = &launch.User{UID: e.owner.UID, GID: e.owner.GID}
		plan.Stage = &launch.Stage{Dir: "/tmp", Binds: map[string]string{}}
		find = plan.Stage.Add
	}
	var files files
	args, err := e.arguments(r, place, find, &files)
	r.files = files.list
	if err != nil {
		return err
	}
	plan.Files = len(r.files)
	plan.Argv = slices.Concat([]string{program}, args, []string{"--"}, e.inside(l))
	r.cmd = exec.Command(e.helper, plan.Arguments()...)
	r.cmd.Dir = "/"
	r.cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin", "LANG=C.UTF-8"}
	r.cmd.ExtraFiles = r.files
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if e.owner != nil {
		r.cmd.SysProcAttr.Unshareflags = syscall.CLONE_NEWNS
	}
	return nil
}

// rlimits are what bubblewrap and all in the sandbox inherit.
func (e *engine) rlimits(l containers.Limits) []launch.Rlimit {
	list := []launch.Rlimit{{Resource: unix.RLIMIT_CORE, Max: 0}}
	if l.Disk > 0 {
		list = append(list, launch.Rlimit{Resource: unix.RLIMIT_FSIZE, Max: uint64(l.Disk)})
	}
	return list
}

// inside is the command that bubblewrap runs in the sandbox. Limits that
// depend on the user are set there, where it is another one than outside.
func (e *engine) inside(l containers.Limits) []string {
	where := containers.Inside()
	box := containers.Setup{Where: where, Disk: l.Disk}.Argv(where.Helper)
	have := e.groups.Enforces()
	plan := launch.Plan{Argv: box}
	if l.PIDs > 0 && !slices.Contains(have, "pids") {
		plan.Rlimits = append(plan.Rlimits, launch.Rlimit{Resource: unix.RLIMIT_NPROC, Max: uint64(l.PIDs + ownPIDs)})
	}
	if l.Memory > 0 && !slices.Contains(have, "memory") {
		plan.Rlimits = append(plan.Rlimits, launch.Rlimit{Resource: unix.RLIMIT_DATA, Max: uint64(l.Memory) + ownData})
	}
	if plan.Rlimits == nil {
		return box
	}
	return append([]string{where.Helper}, plan.Arguments()...)
}

// Recover ends what an earlier daemon left; see [folder.Engine].
func (e *engine) Recover(place folder.Place, last folder.Process) containers.Usage {
	last.Kill() // and what it watches dies with it
	g := e.groups.Group(place.ID)
	g.Kill()
	used := usage(g)
	g.Remove()
	return used
}

func usage(g *cgroup.Group) containers.Usage {
	u := g.Usage()
	return containers.Usage{CPU: u.CPU, Memory: u.Memory, OOMKills: u.OOMKills}
}

// probe makes a sandbox in dir that ends at once.
func (e *engine) probe(ctx context.Context, dir string) error {
	place := folder.Place{ID: filepath.Base(dir), Workspace: filepath.Join(dir, "workspace"), Skills: filepath.Join(dir, "skills")}
	for _, d := range []string{place.Workspace, place.Skills} {
		if err := os.Mkdir(d, 0o755); err != nil {
			return fsys.Wrap(fsys.Unavailable, "trying bubblewrap", err)
		}
	}
	if e.owner != nil {
		if err := os.Chown(place.Workspace, e.owner.UID, e.owner.GID); err != nil {
			return fsys.Wrap(fsys.Unavailable, "trying bubblewrap", err)
		}
	}
	made, err := e.Begin(ctx, place)
	if err != nil {
		return err
	}
	defer made.Close()
	cmd := made.Command() // its input is at the end, which ends the box
	var words strings.Builder
	cmd.Stderr = &words
	err = cmd.Start()
	if err == nil {
		made.Started()
		undo := context.AfterFunc(ctx, made.Kill)
		err = cmd.Wait()
		undo()
		made.Kill()
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		said := strings.Join(strings.Fields(words.String()), " ")
		if said == "" {
			said = err.Error()
		}
		return fsys.E(fsys.Unavailable, "bubblewrap cannot make a sandbox: "+said+advice())
	}
	return nil
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
