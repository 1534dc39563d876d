package main

import (
	"net"
	"path/filepath"
	"sync"

	"agent9/fsys/ninep"
	"agent9/services/host"
)

// sockets are the agents' own, in one directory, opened on demand.
type sockets struct {
	dir    string
	host   *host.Host
	server func(attachFunc) *ninep.Server
	wait   sync.WaitGroup

	mu   sync.Mutex
	open map[string]*socket
}

type socket struct {
	l      net.Listener
	server *ninep.Server
}

// path returns the path of the socket of an agent.
func (s *sockets) path(name string) string { return filepath.Join(s.dir, name+".sock") }

// Open serves the agent called name at its own socket, if it is not yet.
func (s *sockets) Open(name string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	path := s.path(name)
	if s.open[name] != nil {
		return path, nil
	}
	l, err := listenUnix(path)
	if err != nil {
		return "", err
	}
	sock := &socket{l, s.server(attachAgent(s.host, name))}
	if s.open == nil {
		s.open = map[string]*socket{}
	}
	s.open[name] = sock
	s.wait.Go(func() { sock.server.Serve(l) })
	return path, nil
}

// Close ends an agent's socket and whatever uses it.
func (s *sockets) Close(name string) {
	s.mu.Lock()
	sock := s.open[name]
	delete(s.open, name)
	s.mu.Unlock()
	if sock != nil {
		sock.l.Close() // which also removes it
	}
}

// CloseAll ends all of them.
func (s *sockets) CloseAll() {
	s.mu.Lock()
	names := make([]string, 0, len(s.open))
	for name := range s.open {
		names = append(names, name)
	}
	s.mu.Unlock()
	for _, name := range names {
		s.Close(name)
	}
	s.wait.Wait()
}
