package docker

import (
	"context"
	"net"
	"sync"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"

	"agent9/fsys"
	"agent9/providers/sandboxes"
)

// sandbox is a container. There is one of each in a Provider.
type sandbox struct {
	p  *Provider
	id string // the container's name

	mu       sync.Mutex
	starting bool
	runs     map[string]sandboxes.Usage // by when the engine started it
}

var _ sandboxes.Sandbox = (*sandbox)(nil)

// sandbox returns the one sandbox of that name.
func (p *Provider) sandbox(id string) *sandbox {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.sandboxes[id]
	if s == nil {
		s = &sandbox{p: p, id: id, runs: make(map[string]sandboxes.Usage)}
		p.sandboxes[id] = s
	}
	return s
}

func (p *Provider) Open(ctx context.Context, id string) (sandboxes.Sandbox, error) {
	found, err := p.api.ContainerInspect(ctx, id)
	if missing(err) || err == nil && (found.Config.Labels[labelOwner] != p.config.Owner || found.Name != "/"+id) {
		return nil, fsys.E(fsys.NotExist, "there is no sandbox "+id)
	}
	if err != nil {
		return nil, p.fail("looking for the sandbox", err)
	}
	return p.sandbox(id), nil
}

func (s *sandbox) ID() string { return s.id }

func (s *sandbox) Name(ctx context.Context) (string, error) {
	found, err := s.p.api.ContainerInspect(ctx, s.id)
	if missing(err) {
		return "", fsys.E(fsys.NotExist, "the sandbox has been removed")
	}
	if err != nil {
		return "", s.p.fail("looking at the sandbox", err)
	}
	return found.Config.Labels[labelName], nil
}

func (s *sandbox) Start(ctx context.Context) (net.Conn, error) {
	if !s.begin() {
		return nil, fsys.E(fsys.Busy, "the sandbox is being started")
	}
	defer s.end()
	state, err := s.state(ctx)
	if err != nil {
		return nil, err
	}
	if state.Running {
		return nil, fsys.E(fsys.Busy, "the sandbox is already running")
	}
	longer, done := outliving(ctx)
	defer done()
	c, err := s.attach(ctx)
	if err != nil {
		return nil, s.p.fail("connecting to the sandbox", err)
	}
	err = s.p.api.ContainerStart(longer, s.id, container.StartOptions{})
	if err == nil {
		if err = ctx.Err(); err == nil {
			c.follow()
			return c, nil
		}
	}
	c.Close()
	s.kill(longer)
	return nil, s.p.fail("starting the sandbox", err)
}

func (s *sandbox) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.starting {
		return false
	}
	s.starting = true
	return true
}

func (s *sandbox) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.starting = false
}

// state is what the engine says of the container.
func (s *sandbox) state(ctx context.Context) (*container.State, error) {
	found, err := s.p.api.ContainerInspect(ctx, s.id)
	if missing(err) {
		return nil, fsys.E(fsys.NotExist, "the sandbox has been removed")
	}
	if err != nil {
		return nil, s.p.fail("looking at the sandbox", err)
	}
	return found.State, nil
}

func (s *sandbox) Stop(ctx context.Context) error {
	return s.p.fail("stopping the sandbox", s.kill(ctx))
}

// kill ends the run, and waits until it has ended.
func (s *sandbox) kill(ctx context.Context) error {
	err := s.p.api.ContainerKill(ctx, s.id, "SIGKILL")
	if missing(err) || conflict(err) {
		return nil // gone, or not running
	}
	if err != nil {
		return err
	}
	return s.wait(ctx, container.WaitConditionNotRunning)
}

func (s *sandbox) wait(ctx context.Context, what container.WaitCondition) error {
	ended, failed := s.p.api.ContainerWait(ctx, s.id, what)
	select {
	case <-ended:
		return nil
	case err := <-failed:
		if missing(err) {
			return nil
		}
		return err
	}
}

// removeWait is how long an engine is asked again to remove what it could not.
const removeWait = 15 * time.Second

// remove asks the engine to remove the container. One whose processes have
// just died can be in use yet by what the kernel has to clean up, of which
// nobody is told: then the engine fails, and succeeds later.
func (s *sandbox) remove(ctx context.Context) error {
	asked := time.Now()
	for pause := 100 * time.Millisecond; ; pause *= 2 {
		err := s.p.api.ContainerRemove(ctx, s.id, container.RemoveOptions{Force: true, RemoveVolumes: true})
		if !cerrdefs.IsInternal(err) || time.Since(asked)+pause > removeWait {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return err
		}
	}
}

func (s *sandbox) Remove(ctx context.Context) error {
	err := s.remove(ctx)
	if conflict(err) { // somebody else is at it
		err = s.wait(ctx, container.WaitConditionRemoved)
	}
	if err != nil && !missing(err) {
		return s.p.fail("removing the sandbox", err)
	}
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	delete(s.p.sandboxes, s.id)
	return nil
}
