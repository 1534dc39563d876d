package main

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"agent9/cmd/internal/addr"
	"agent9/fsys"
	"agent9/fsys/ninep"
	"agent9/services/agent"
	"agent9/services/host"
)

// sockets are the agents' own, in one directory, opened on demand.
type sockets struct {
	dir    string
	host   *host.Host
	server func(by string, attach attachFunc) *ninep.Server

	mu     sync.Mutex
	ticks  uint64             // how many sockets for ticks there were
	open   map[string]*socket // by agent
	closed bool
}

type socket struct {
	l      net.Listener
	server *ninep.Server
	done   chan struct{} // closed when nothing of it is left
}

const socketSuffix = ".sock"

// newSockets returns the sockets in dir, of which there are none yet: what an
// earlier daemon has left there is removed.
func newSockets(dir string) (*sockets, error) {
	stale, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fsys.Wrap(fsys.Unavailable, "the directory of the agents' sockets", err)
	}
	for _, f := range stale {
		if !strings.HasSuffix(f.Name(), socketSuffix) || f.Type()&fs.ModeSocket == 0 {
			continue
		}
		if err := os.Remove(filepath.Join(dir, f.Name())); err != nil {
			return nil, fsys.Wrap(fsys.Unavailable, "a stale socket of an agent", err)
		}
	}
	return &sockets{dir: dir, open: map[string]*socket{}}, nil
}

// Open serves the agent called name at its own socket, if it is not yet.
func (s *sockets) Open(name string) (path string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	path = filepath.Join(s.dir, name+socketSuffix)
	switch {
	case s.closed:
		return "", fsys.E(fsys.Unavailable, "the daemon is shutting down")
	case s.open[name] != nil:
		return path, nil
	}
	return path, s.listen(name, path, attachAgent(s.host, name, bySocket(name)))
}

// listen is called with mu held.
func (s *sockets) listen(name, path string, attach attachFunc) error {
	l, err := listenUnix(path)
	if err != nil {
		return err
	}
	sock := &socket{l, s.server(bySocket(name), attach), make(chan struct{})}
	s.open[name] = sock
	go func() { // until Close
		sock.server.Serve(l)
		sock.server.Shutdown(context.Background())
		close(sock.done)
	}()
	return nil
}

// Serve serves root, which is what the agent called name sees in a tick, until
// done is called, and returns the address. The name of such a socket cannot be
// that of an agent.
func (s *sockets) Serve(name string, root fsys.Node) (address string, done func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return "", nil, fsys.E(fsys.Unavailable, "the daemon is shutting down")
	}
	s.ticks++
	own := "-" + strconv.FormatUint(s.ticks, 10)
	path, err := filepath.Abs(filepath.Join(s.dir, own+socketSuffix))
	if err != nil {
		return "", nil, fsys.Wrap(fsys.Unavailable, "the socket of a tick", err)
	}
	if err := s.listen(own, path, attachTick(name, bySocket(own), root)); err != nil {
		return "", nil, err
	}
	return addr.String("unix", path), func() { s.Close(own) }, nil
}

// serveInside serves root to a program in a sandbox of the agent called name.
func (s *sockets) serveInside(name string, root agent.Inside, conn net.Conn) {
	by := bySocket("in " + name)
	s.server(by, attachInside(name, by, root)).ServeConn(conn)
}

// Close ends an agent's socket and hangs up on who uses it. It does not wait.
func (s *sockets) Close(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.close(name)
}

// close is called with mu held.
func (s *sockets) close(name string) (done <-chan struct{}) {
	sock := s.open[name]
	if sock == nil {
		return nil
	}
	delete(s.open, name)
	sock.l.Close() // which also removes it
	return sock.done
}

// CloseAll ends all of them for good, and waits until nothing of them is left
// or ctx is done.
func (s *sockets) CloseAll(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	var all []<-chan struct{}
	for name := range s.open {
		all = append(all, s.close(name))
	}
	s.mu.Unlock()
	for _, done := range all {
		select {
		case <-done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
