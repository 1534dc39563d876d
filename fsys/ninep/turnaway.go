package ninep

import (
	"crypto/tls"
	"net"
	"strings"
	"time"

	"agent9/fsys/share"
)

// maxTurnedAway is how many clients are told at once that there are too many;
// what comes beyond that is hung up on without a word.
const maxTurnedAway = 64

// turnAwayTime is how long one has to ask and to be told.
const turnAwayTime = time.Second

// A door is where a listener's connections come in, or are told why not.
type door struct {
	share.Door
	away chan struct{}
	full bool // who listens has it
}

// admit serves conn, or turns it away.
func (s *Server) admit(d *door, conn net.Conn) {
	visit, part, why := d.Admit(s.By, s.terms(conn), func() { closeConn(conn) })
	if why == nil {
		d.full = false
		s.conns.Go(func() {
			defer visit.Leave()
			s.serveConn(conn, part, visit)
		})
		return
	}
	if !d.full {
		d.full = true
		s.Log.Warn("refusing connections", "at", conn.LocalAddr(), "limit", s.MaxConns, "why", why)
	}
	select {
	case d.away <- struct{}{}:
		s.conns.Go(func() {
			defer func() { <-d.away }()
			s.turnAway(conn, why)
		})
	default:
		closeConn(conn)
	}
}

// turnAway answers the Tversion of conn with why, and hangs up.
func (s *Server) turnAway(conn net.Conn, why error) {
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
	d, reply := plan9, message{Type: rerror, Tag: m.Tag, Ename: errorText(why, fullErrors)}
	if strings.HasPrefix(m.Version, linux.String()) {
		d, reply = linux, message{Type: rlerror, Tag: m.Tag, Ecode: errnoOf(why)}
	}
	if out, err := appendMessage(nil, d, &reply); err == nil {
		conn.Write(out)
	}
}
