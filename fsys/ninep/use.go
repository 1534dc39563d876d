package ninep

import "sync"

// Use is what clients have at one moment of the servers that share a Memory.
type Use struct {
	Conns    int   // connections, without those that are turned away
	Fids     int   // of all connections
	Requests int   // under way
	Bytes    int64 // that MaxBytes and the Memory count, with each connection's own
}

// Use returns what clients have now. Numbers that change meanwhile are those
// of about now.
func (m *Memory) Use() (u Use) {
	m.serving.mu.Lock()
	defer m.serving.mu.Unlock()
	u.Conns = len(m.conns)
	for c := range m.conns {
		u.Fids += int(c.fids.Load())
		u.Requests += int(c.running.Load())
		u.Bytes += c.data.held.Load() + c.in.room.held.Load()
	}
	return u
}

// A serving is the connections that are served.
type serving struct {
	mu    sync.Mutex
	conns map[*conn]struct{}
}

func (s *serving) begin(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conns == nil {
		s.conns = map[*conn]struct{}{}
	}
	s.conns[c] = struct{}{}
}

func (s *serving) end(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}
