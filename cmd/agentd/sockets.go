package main

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"agent9/fsys"
	"agent9/fsys/ninep"
	"agent9/services/host"
)

// sockets are the agents' own, in one directory, opened on demand.
type sockets struct {
	dir    string
	host   *host.Host
	server func(attachFunc) *ninep.Server

	mu     sync.Mutex
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
		return "", fsys.E(fsys.Unavailable, "the daemon is ending")
	case s.open[name] != nil:
		return path, nil
	}
	l, err := listenUnix(path)
	if err != nil {
		return "", err
	}
	sock := &socket{l, s.server(attachAgent(s.host, name)), make(chan struct{})}
	s.open[name] = sock
	go func() { // until Close
		sock.server.Serve(l)
		sock.server.Shutdown(context.Background())
		close(sock.done)
	}()
	return path, nil
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
