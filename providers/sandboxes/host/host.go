//go:build unix

// Package host runs what agents want to run as what it is: processes of this
// machine, with all the rights of the daemon's user. Nothing is isolated, and no
// limit holds, except that the box measures the workspace. It is for trusted development on one's own machine, and nobody
// should have it without having asked for it.
//
// A sandbox is a folder (package folder), and its workspace all that files/
// shows: nothing in it, such as a symbolic link, leads out. Commands are not
// held there. Skills are copied to the workspace each time the box starts,
// without permission to write, which a command may give itself. The agent's
// socket and what is temporary are in a directory of the sandbox's own below
// [os.TempDir], while it runs.
//
// Commands have PATH, the language and the time zone of the daemon's
// environment, and none of its other variables, which may be secret.
//
// At the end of a run every descendant of the box is killed. Under Linux also
// those that have left its sessions, and those of a daemon that crashed; elsewhere
// only what the box itself can find; see package box.
package host

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"agent9/fsys"
	"agent9/providers/sandboxes"
	"agent9/providers/sandboxes/folder"
)

// Config says what to run and where.
type Config struct {
	// Dir has the sandboxes; see package folder.
	Dir string
	// Helper is cmd/a9 on this machine.
	Helper string
}

// grace is how long the box has to find and kill what it has begun.
const grace = 3 * time.Second

// Provider is a [sandboxes.Provider]. It is safe for concurrent use.
type Provider struct {
	*folder.Store
	helper string
}

var _ sandboxes.Provider = (*Provider)(nil)

// New returns the sandboxes below config.Dir. What an earlier daemon left
// running is ended.
func New(config Config) (*Provider, error) {
	helper, err := filepath.Abs(config.Helper)
	if err != nil {
		return nil, fsys.Wrap(fsys.Invalid, "the program a9", err)
	}
	store, err := folder.New(folder.Config{Dir: config.Dir, Grace: grace}, engine{helper})
	if err != nil {
		return nil, err
	}
	p := &Provider{Store: store, helper: helper}
	_, err = p.List(context.Background()) // ends what goes on
	return p, err
}

// Info is what there is to know of it.
func (p *Provider) Info(context.Context) (sandboxes.Info, error) {
	if _, err := exec.LookPath(p.helper); err != nil {
		return sandboxes.Info{}, noHelper
	}
	return sandboxes.Info{Driver: "host", Version: runtime.GOOS, Arch: runtime.GOARCH,
		Disk: "walk", Users: "one", Paths: "provider", Network: "host", Left: p.Left(),
	}, nil
}

var noHelper = fsys.E(fsys.Unavailable, "the program a9, which every sandbox needs, is not where agentd looks for it: install it beside agentd")

// Images is empty: there is this machine only.
func (p *Provider) Images(context.Context) ([]sandboxes.Image, error) { return nil, nil }

// Create makes a sandbox; see [sandboxes.Provider].
func (p *Provider) Create(ctx context.Context, spec sandboxes.Spec, progress func(string)) (sandboxes.Sandbox, error) {
	if spec.Image != "" {
		return nil, fsys.E(fsys.NotExist, "there is no image "+spec.Image+", nor any other: sandboxes are folders of this machine, and use its own programs")
	}
	if _, err := p.Info(ctx); err != nil {
		return nil, err
	}
	return p.Store.Create(ctx, spec, progress)
}

// engine is the host's [folder.Engine].
type engine struct{ helper string }

// mark is the variable that every process of a sandbox has.
const mark = "AGENT9_SANDBOX="

func temporary(id string) string { return filepath.Join(os.TempDir(), "agent9-"+id) }

// Make makes a workspace; see [folder.Engine].
func (e engine) Make(_ context.Context, place folder.Place) error { return folder.Dir(place) }

// Begin prepares a run of the box; see [folder.Engine].
func (e engine) Begin(_ context.Context, place folder.Place) (folder.Run, error) {
	tmp := temporary(place.ID)
	r := &run{id: place.ID, tmp: tmp}
	where := sandboxes.Where{
		Root: place.Workspace, Workspace: place.Workspace, Home: place.Workspace,
		Tmp: filepath.Join(tmp, "tmp"), Socket: filepath.Join(tmp, "agent.sock"), Helper: e.helper,
	}
	if err := os.Mkdir(tmp, 0o700); err != nil {
		return nil, fsys.Wrap(fsys.Unavailable, "the sandbox's temporary directory", err)
	}
	skills, err := place.CopySkills()
	if err == nil {
		err = os.Mkdir(where.Tmp, 0o700)
	}
	if err != nil {
		r.Close()
		return nil, fsys.Wrap(fsys.Unavailable, "preparing the sandbox", err)
	}
	where.Skills = skills
	argv := sandboxes.Setup{Where: where, Confined: true, Disk: place.Limits.Disk}.Argv(e.helper)
	r.cmd = exec.Command(argv[0], argv[1:]...)
	r.cmd.Dir = place.Workspace
	r.cmd.Env = append(environment(), mark+place.ID)
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return r, nil
}

// environment is what commands have of the daemon's.
func environment() []string {
	var env []string
	for _, kv := range os.Environ() {
		key, _, _ := strings.Cut(kv, "=")
		switch key {
		case "PATH", "LANG", "TZ", "USER", "LOGNAME", "SHELL":
			env = append(env, kv)
		default:
			if strings.HasPrefix(key, "LC_") {
				env = append(env, kv)
			}
		}
	}
	return env
}

// Recover ends what an earlier daemon left; see [folder.Engine].
func (e engine) Recover(place folder.Place, last folder.Process) sandboxes.Usage {
	last.Kill()
	killWithVar(mark + place.ID)
	os.RemoveAll(temporary(place.ID))
	return sandboxes.Usage{}
}

// run is one of the box's.
type run struct {
	id  string
	tmp string
	cmd *exec.Cmd
}

func (r *run) Command() *exec.Cmd { return r.cmd }
func (r *run) Started()           {}

// Kill ends the box and what it has begun; see [folder.Run].
func (r *run) Kill() {
	r.cmd.Process.Kill()
	killWithVar(mark + r.id)
}

func (r *run) Usage(end *os.ProcessState) sandboxes.Usage {
	return sandboxes.Usage{CPU: folder.CPU(r.cmd.Process.Pid, end)}
}

func (r *run) Close() { os.RemoveAll(r.tmp) }
