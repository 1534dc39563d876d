// Package tools serves the tools of other programs as files: those of the
// servers that the agent's configuration names under "tools".
//
//	<server>/
//	  schema        JSON: what the server says of itself and of all its tools
//	  status        JSON: whether it runs, its tools, what it does not show and why, the last failure
//	  <tool>/
//	    schema      JSON: name, description, inputSchema, as the server has it
//	    call        Message: the arguments, a JSON object; reply: the result, as the server has it
//
// A server is started when somebody looks at its tools or calls one, kept while
// it is used, and ended when nobody has used it for a while, when its
// configuration changes, when the agent is stopped, and with the daemon. One
// that failed or crashed is started again by who uses it next, but not at
// once: after a second, which doubles up to a minute until a call succeeds.
// Until then everything but status fails with the reason.
//
// A tool's name in which a file's name cannot be has %2F for / and %25 for %;
// so has one that would be schema or status, as in %73chema. What can be no
// name at all is not shown, and status says so.
//
// The result of a tool that failed says isError: the write succeeds. It fails
// if the server cannot be reached, does not know the tool, or takes too long.
//
// A server with a price takes it from the agent's budget for each call, but
// those that it refuses: a tool that it does not have, or wrong arguments. Of a
// call that was cut off nobody knows what it did, so it is paid.
//
// Events: tool.started, tool.ended, tool.failed of servers; tool.called and
// tool.answered of calls. Neither arguments nor results are in them.
package tools

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"agent9/fsys"
	"agent9/namespace/budget"
	provider "agent9/providers/tools"
	"agent9/store"
)

// Options are what a Service works with.
type Options struct {
	// Store has the holds of calls that have not ended.
	Store store.Updater
	// Provider starts servers; nil: there is none.
	Provider provider.Provider
	// Servers is the configuration in force, by the servers' names.
	Servers func() map[string]json.RawMessage
	// Secret returns a secret, which is given to the server at target, or, if
	// that is empty, to a program.
	Secret  func(ctx context.Context, name, target string) ([]byte, error)
	Note    store.Note
	Account *budget.Account
	// Working refuses calls while the agent does no work.
	Working func() error
	Now     func() time.Time
}

// A Service is the tools of one agent.
type Service struct {
	opts Options
	life context.Context
	root *fsys.Table

	mu      sync.Mutex
	servers map[string]*server
	ended   bool
	running sync.WaitGroup // goroutines that watch or end servers
}

var _ fsys.FileService = (*Service)(nil)

// Open returns the service, after it has settled the calls that the end of an
// earlier daemon cut off. Servers end with life.
func Open(life context.Context, opts Options) (*Service, error) {
	s := &Service{opts: opts, life: life, servers: map[string]*server{}}
	s.root = fsys.NewTableWith(servers{s})
	return s, s.settleAll(life)
}

// Root returns the directory of the servers.
func (s *Service) Root() fsys.Node { return s.root }

// names returns the servers that there are.
func (s *Service) names() []string { return slices.Sorted(maps.Keys(s.opts.Servers())) }

// server returns the server called name, as it is configured now.
func (s *Service) server(name string) (*server, error) {
	raw, ok := s.opts.Servers()[name]
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.servers[name]
	switch {
	case s.ended || !ok:
		return nil, fsys.NotExist
	case known != nil && string(known.raw) == string(raw):
		return known, nil
	}
	config, err := ParseServer(raw)
	if err != nil {
		return nil, fsys.Wrap(fsys.Invalid, "tools: "+name, err)
	}
	s.drop(known)
	made := &server{s: s, name: name, raw: raw, config: config}
	s.servers[name] = made
	return made, nil
}

// drop ends a server that is none any longer. The lock is held.
func (s *Service) drop(x *server) {
	if x == nil {
		return
	}
	delete(s.servers, x.name)
	s.running.Go(func() { x.retire(s.life) })
}

// Reconfigured ends the servers that are configured otherwise now, or not at
// all.
func (s *Service) Reconfigured() {
	now := s.opts.Servers()
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, x := range s.servers {
		if string(now[name]) != string(x.raw) {
			s.drop(x)
		}
	}
}

// Stop ends all servers. They are started again when they are used.
func (s *Service) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.servers {
		s.drop(x)
	}
}

// End says that there will be no more tools.
func (s *Service) End() {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	s.Stop()
}

// Close ends all servers and waits until they are gone; they have until ctx
// ends to do so in order.
func (s *Service) Close(ctx context.Context) error {
	s.mu.Lock()
	s.ended = true
	for _, x := range s.servers {
		delete(s.servers, x.name)
		s.running.Go(func() { x.retire(ctx) })
	}
	s.mu.Unlock()
	s.running.Wait()
	return nil
}

func (s *Service) note(ctx context.Context, event string, detail any) {
	// An event that cannot be recorded undoes nothing: the server is as it is.
	_ = s.opts.Store.Update(context.WithoutCancel(ctx), func(tx store.Store) error {
		return s.opts.Note.Record(tx, event, detail)
	})
}
