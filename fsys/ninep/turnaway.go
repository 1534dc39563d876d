package ninep

import (
	"crypto/tls"
	"net"
	"strings"
	"time"

	"agent9/fsys"
)

// maxTurnedAway is how many clients are told at once that there are too many;
// what comes beyond that is hung up on without a word.
const maxTurnedAway = 64

// turnAwayTime is how long one has to ask and to be told.
const turnAwayTime = time.Second

var errManyConns = fsys.E(fsys.Busy, "too many connections; agentd --max-connections allows more")

// A door lets in as many as there is room for.
type door struct {
	room chan struct{}
	away chan struct{}
	full bool // who listens has it
}

func (s *Server) newDoor() *door {
	return &door{room: make(chan struct{}, s.MaxConns), away: make(chan struct{}, maxTurnedAway)}
}

// admit serves conn, or turns it away.
func (s *Server) admit(d *door, conn net.Conn) {
	select {
	case d.room <- struct{}{}:
		d.full = false
		s.conns.Go(func() {
			defer func() { <-d.room }()
			s.ServeConn(conn)
		})
		return
	default:
	}
	if !d.full {
		d.full = true
		s.Log.Warn("too many connections: others are turned away", "at", conn.LocalAddr(), "limit", s.MaxConns)
	}
	select {
	case d.away <- struct{}{}:
		s.conns.Go(func() {
			defer func() { <-d.away }()
			s.turnAway(conn)
		})
	default:
		closeConn(conn)
	}
}

// turnAway answers the Tversion of conn with an error and hangs up.
func (s *Server) turnAway(conn net.Conn) {
	defer closeConn(conn)
	if !s.track(conn, func() { conn.SetDeadline(past) }) {
		return
	}
	defer s.untrack(conn)
	if _, ok := conn.(*tls.Conn); ok {
		return // a handshake costs more than a connection
	}
	conn.SetDeadline(time.Now().Add(turnAwayTime))
	b, err := newFrameReader(conn).next(minMsize)
	var m message
	if err != nil || decodeMessage(b, plan9, &m) != nil || m.Type != tversion {
		return
	}
	d, reply := plan9, message{Type: rerror, Tag: m.Tag, Ename: errorText(errManyConns, fullErrors)}
	if strings.HasPrefix(m.Version, linux.String()) {
		d, reply = linux, message{Type: rlerror, Tag: m.Tag, Ecode: errnoOf(errManyConns)}
	}
	if out, err := appendMessage(nil, d, &reply); err == nil {
		conn.Write(out)
	}
}
