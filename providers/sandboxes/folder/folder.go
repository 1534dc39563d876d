//go:build unix

// Package folder keeps sandboxes that are folders on this machine, for the
// drivers that run the box as a process of it: what they share is written
// here, and an [Engine] is what is left of such a driver.
//
//	<dir>/sandboxes/<id>/record.json    what the sandbox is and has used
//	<dir>/sandboxes/<id>/workspace/     unless it has one that persists
//	<dir>/sandboxes/<id>/skills/
//	<dir>/sandboxes/<id>/work/          the engine's
//	<dir>/sandboxes/.new-<id>           being made; swept by New
//	<dir>/sandboxes/.gone-<id>          being removed; swept by New, and later if need be
//	<dir>/workspaces/<name>             one that persists
//
// A workspace is a directory, or what else the engine makes of it. Each of these
// has the group of the agent that it belongs to, if there is one; see [Mark].
//
// One daemon uses a folder at a time. A workspace that persists is locked
// (flock(2)) while a sandbox runs in it, so that a second run
// is refused with Busy.
package folder

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"agent9/fsys"
	"agent9/providers/sandboxes"
)

// Config says where sandboxes are kept and whose their files are.
type Config struct {
	// Dir is made if it does not exist. What is in it must be changed by no
	// other program.
	Dir string
	// Owner says to which user and group the workspaces of an agent belong; nil:
	// the daemon's.
	Owner func(ctx context.Context, agent string) (*Owner, error)
	// Grace is how long a run may take to end in order, after its connection
	// was closed and before it is killed.
	Grace time.Duration
}

// An Engine makes runs of the box.
type Engine interface {
	// Make makes a new workspace at place.Workspace: a directory (see [Dir]), or
	// whatever Begin can use. Exist: something is there already.
	Make(ctx context.Context, place Place) error
	// Begin prepares a run in place. ctx bounds only this call.
	Begin(ctx context.Context, place Place) (Run, error)
	// Recover ends what an earlier daemon left of a run in place, whose first
	// process was last, and returns what the run had used, as far as known.
	Recover(place Place, last Process) sandboxes.Usage
}

// A Run is one run of the box.
type Run interface {
	// Command is what to start. The caller sets its standard input and output,
	// which are the connection, and its standard error, which gives the reason
	// if the box cannot be run.
	Command() *exec.Cmd
	// Started is called once, right after the command was started.
	Started()
	// Kill ends every process of the run at once. It is called after
	// Started, maybe more than once, and also after it ended by itself.
	Kill()
	// Usage is what the run has used, but for Wall. It may be called after
	// Started and until Close. end is how the command ended, and nil before.
	Usage(end *os.ProcessState) sandboxes.Usage
	// Close frees what Begin took. It is called once, after the command ended
	// or could not be started, and after Kill.
	Close()
}

// Place is where a sandbox has its things on this machine.
type Place struct {
	ID        string
	Image     string
	Limits    sandboxes.Limits
	Owner     *Owner // nil: the daemon's
	Workspace string // what Make made; this and the others are absolute
	Skills    string // a directory
	Work      string // a directory in the file system of Workspace, for the engine
}

// Dir makes the directory place.Workspace, and is an Engine's Make.
func Dir(place Place) error {
	err := os.Mkdir(place.Workspace, 0o700)
	if err == nil && place.Owner != nil {
		err = os.Chown(place.Workspace, place.Owner.UID, place.Owner.GID)
	}
	return fsys.Wrap(fsys.Internal, "the workspace", err)
}

// Store has the sandboxes of one Config and is a driver's [sandboxes.Provider]
// but for Info and Images. It is safe for concurrent use.
type Store struct {
	config Config
	engine Engine

	mu     sync.Mutex
	loaded map[string]*Sandbox
	left   map[string]bool // paths of what could not be removed or used
	tried  time.Time       // when that was tried last
}

// New returns the sandboxes below config.Dir, after removing what an earlier
// daemon made or removed by half. What cannot be removed does not matter to it.
func New(config Config, engine Engine) (*Store, error) {
	dir, err := filepath.Abs(config.Dir)
	if err != nil {
		return nil, fsys.Wrap(fsys.Invalid, "the folder for sandboxes", err)
	}
	config.Dir = dir
	s := &Store{config: config, engine: engine, loaded: map[string]*Sandbox{}, left: map[string]bool{}}
	for _, d := range []string{s.sandboxes(), s.workspaces()} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, fsys.Wrap(fsys.Internal, "the folder for sandboxes", err)
		}
		for _, name := range names(d) {
			if strings.HasPrefix(name, ".") {
				s.remove(filepath.Join(d, name))
			}
		}
	}
	return s, nil
}

func (s *Store) sandboxes() string  { return filepath.Join(s.config.Dir, "sandboxes") }
func (s *Store) workspaces() string { return filepath.Join(s.config.Dir, "workspaces") }

// Scratch makes a directory for a while; Drop removes it, or else New.
func (s *Store) Scratch() (dir string, err error) {
	dir, err = os.MkdirTemp(s.sandboxes(), ".new-")
	return dir, fsys.Wrap(fsys.Internal, "a folder for a while", err)
}

// Drop removes what Scratch made.
func (s *Store) Drop(dir string) { s.remove(dir) }

var noSandbox = fsys.E(fsys.NotExist, "no sandbox has this name")

// Create makes the folder of a sandbox; see [sandboxes.Provider].
func (s *Store) Create(ctx context.Context, spec sandboxes.Spec, _ func(string)) (sandboxes.Sandbox, error) {
	if spec.Workspace != "" {
		if _, err := s.workspace(spec.Workspace); err != nil {
			return nil, err
		}
	}
	var random [8]byte
	rand.Read(random[:])
	id := "a9" + hex.EncodeToString(random[:])
	half := filepath.Join(s.sandboxes(), ".new-"+id)
	if err := s.fill(ctx, half, spec); err != nil {
		s.remove(half)
		return nil, err
	}
	if err := os.Rename(half, filepath.Join(s.sandboxes(), id)); err != nil {
		s.remove(half)
		return nil, fsys.Wrap(fsys.Internal, "the sandbox's folder", err)
	}
	return s.load(id)
}

// fill makes all of a sandbox's folder at dir.
func (s *Store) fill(ctx context.Context, dir string, spec sandboxes.Spec) error {
	owner, err := s.owner(ctx, spec.Agent)
	if err != nil {
		return err
	}
	place := Place{Limits: spec.Limits, Owner: owner}.in(dir)
	for _, d := range []string{dir, place.Skills, place.Work} {
		if err := os.Mkdir(d, 0o700); err != nil {
			return fsys.Wrap(fsys.Internal, "the sandbox's folder", err)
		}
	}
	if err := Mark(dir, owner); err != nil {
		return err
	}
	if spec.Workspace == "" {
		if err := s.engine.Make(ctx, place); err != nil {
			return err
		}
	}
	if err := writeSkills(ctx, place.Skills, spec.Skills); err != nil {
		return err
	}
	made := record{
		Name: spec.Name, Agent: spec.Agent, Image: spec.Image, Limits: spec.Limits,
		Workspace: spec.Workspace, Created: time.Now().UTC(),
	}
	if err := made.save(dir); err != nil {
		return err
	}
	return ctx.Err()
}

// in is the place with everything of it in dir.
func (p Place) in(dir string) Place {
	p.Workspace, p.Skills, p.Work = filepath.Join(dir, workspaceDir), filepath.Join(dir, skillsDir), filepath.Join(dir, workDir)
	return p
}

// Open returns the sandbox with this ID; see [sandboxes.Provider].
func (s *Store) Open(_ context.Context, id string) (sandboxes.Sandbox, error) {
	sb, err := s.load(id)
	if err != nil {
		return nil, err
	}
	return sb, nil
}

// List returns every sandbox that can be used; see [sandboxes.Provider]. The
// others are left over.
func (s *Store) List(ctx context.Context) ([]sandboxes.Found, error) {
	var found []sandboxes.Found
	for _, name := range names(s.sandboxes()) {
		if strings.HasPrefix(name, ".") {
			continue
		}
		sb, err := s.load(name)
		if errors.Is(err, fsys.NotExist) {
			continue // removed meanwhile
		}
		if err != nil {
			s.leave(filepath.Join(s.sandboxes(), name), err)
			continue
		}
		found = append(found, sandboxes.Found{ID: sb.id, Name: sb.name(), Running: sb.running()})
	}
	return found, ctx.Err()
}

// load returns the one Sandbox value of id. The first time, what an earlier
// daemon left running in it is ended.
func (s *Store) load(id string) (*Sandbox, error) {
	if strings.HasPrefix(id, ".") || fsys.CheckName(id) != nil {
		return nil, noSandbox
	}
	s.mu.Lock()
	sb := s.loaded[id]
	if sb == nil {
		sb = newSandbox(s, id)
		s.loaded[id] = sb
	}
	s.mu.Unlock()
	sb.load.Do(sb.recover)
	if sb.broken != nil {
		s.forget(id)
		return nil, sb.broken
	}
	return sb, nil
}

func (s *Store) forget(id string) {
	s.mu.Lock()
	delete(s.loaded, id)
	s.mu.Unlock()
}
