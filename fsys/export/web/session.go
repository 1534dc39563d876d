package web

import (
	"context"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"agent9/fsys"
	"agent9/fsys/share"
)

// A Session is a request whose sender was let in.
type Session struct {
	Grant
	Path []string // of the URL
	W    http.ResponseWriter
	R    *http.Request // its context has the caller, and ends with the client, the grant or the server
	Part *share.Part   // of what the request makes the daemon keep, until it has been answered

	server *Server
	out    *writer
	slash  bool // the URL ends with one
}

// An App answers requests below some path in another language than the
// tree's.
type App struct {
	Serve  func(s *Session)
	Refuse func(w http.ResponseWriter, err error) // answers a client that is not let in or has sent too much
}

// JobHeader names the job that a request has become.
const JobHeader = "X-Agent9-Job"

// The kind of a file, in answers to GET and HEAD.
const (
	kindHeader = "X-Agent9-Kind"
	permHeader = "X-Agent9-Perm"
	sizeHeader = "X-Agent9-Size" // of a stream: so much can be read now, or more
)

// Methods are those that the tree knows.
var Methods = []string{
	http.MethodGet, http.MethodHead, http.MethodPut, http.MethodPatch, http.MethodPost, http.MethodDelete,
	"MKCOL", "MOVE", http.MethodOptions,
}

// serveTree performs the request on the tree.
func (s *Session) serveTree() {
	if err := s.perform(); err != nil {
		s.Fail(err)
	}
}

// Fail answers with err. Where an answer has begun already, the connection is
// cut: nobody takes half of it for the whole.
func (s *Session) Fail(err error) {
	if s.out.status != 0 {
		panic(http.ErrAbortHandler)
	}
	if cause := context.Cause(s.R.Context()); cause != nil && fsys.CodeOf(err) == fsys.Canceled {
		err = cause
	}
	Refuse(s.out, err)
}

// Answered reports whether an answer has begun.
func (s *Session) Answered() bool { return s.out.status != 0 }

// Flush sends what was written.
func (s *Session) Flush() error { return s.out.FlushError() }

// parameters are what a URL can have behind its question mark.
var parameters = []string{"mkdir", "mtime", "offset", "perm", "rename", "wait", "watch"}

func (s *Session) perform() (err error) {
	r := s.R
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		end := s.Begin("HTTP " + r.Method + " " + s.place())
		defer func() { end(err) }()
	}
	query := s.R.URL.Query()
	for name := range query {
		if !slices.Contains(parameters, name) {
			return fsys.E(fsys.Invalid, "there is no parameter "+shortened(name)+"; there are: "+strings.Join(parameters, ", "))
		}
	}
	if s.upgrades() {
		return s.socket()
	}
	if r.Method == http.MethodPut || r.Method == http.MethodPost {
		if node := s.large(); node != nil {
			return s.putLarge(node)
		}
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		return s.get()
	case http.MethodPut:
		return s.put()
	case http.MethodPatch:
		return s.patch()
	case http.MethodPost:
		switch {
		case query.Has("mkdir"):
			return s.mkdir()
		case query.Has("rename"):
			return s.rename(query.Get("rename"))
		case query.Has("perm"), query.Has("mtime"):
			return s.setAttr()
		}
		return s.post()
	case http.MethodDelete:
		return s.remove()
	case "MKCOL":
		return s.mkdir()
	case "MOVE":
		return s.move()
	case http.MethodOptions:
		s.W.Header().Set("Allow", strings.Join(Methods, ", "))
		s.W.WriteHeader(http.StatusNoContent)
		return nil
	}
	return failed(http.StatusMethodNotAllowed, fsys.Unsupported, "there is no method "+shortened(r.Method)+" here")
}

// Begin begins a span, of which everything is part that is done with the
// context of R from then on.
func (s *Session) Begin(name string) (end func(err error)) {
	ctx := s.R.Context()
	cause := ctx
	if s.server.Cause != nil {
		cause = s.server.Cause(ctx, s.R.Header)
	}
	traced, done := s.server.Trace.Begin(ctx, cause, name, "agent", s.Agent)
	s.R = s.R.WithContext(traced)
	return func(err error) { done(fsys.Outcome(err)) }
}

// place is where in an agent's tree the request is about: its first name
// there, and no more, as what follows may be anybody's text.
func (s *Session) place() string {
	if len(s.Path) > 2 && s.Path[0] == agentsDir {
		return "/" + s.Path[2]
	}
	if len(s.Path) > 0 {
		return "/" + s.Path[0]
	}
	return "/"
}

const agentsDir = "agents"

// Walk finds the file at path.
func (s *Session) Walk(ctx context.Context, path ...string) (n fsys.Node, err error) {
	n = s.Root
	for _, name := range path {
		if n, err = fsys.Walk(ctx, n, name); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// parent finds the directory of the file that the request is about.
func (s *Session) parent(ctx context.Context) (dir fsys.Node, name string, err error) {
	if len(s.Path) == 0 {
		return nil, "", fsys.E(fsys.Permission, "the root cannot be created, renamed or removed")
	}
	last := len(s.Path) - 1
	dir, err = s.Walk(ctx, s.Path[:last]...)
	return dir, s.Path[last], err
}

// Body returns the whole body, up to the limit of the server. Ask for it when
// nothing else is in the way of the request: it is counted as it comes, until the
// answer is given.
func (s *Session) Body() ([]byte, error) {
	r, max := s.R, s.server.MaxBody
	if r.ContentLength > max {
		return nil, s.tooLarge()
	}
	defer s.out.control.SetReadDeadline(time.Time{}) // so that the client can still be seen to go
	var body []byte
	for began := time.Now(); ; {
		if len(body) == cap(body) {
			var err error
			if body, err = s.Grow(body); err != nil {
				return nil, err
			}
		}
		s.out.control.SetReadDeadline(s.server.patience(began, len(body)))
		n, err := r.Body.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		if int64(len(body)) > max {
			return nil, s.tooLarge()
		}
		switch {
		case err == io.EOF && s.over():
			return nil, errRevoked
		case err == io.EOF:
			return body, nil
		case err != nil:
			return nil, s.cutShort(err)
		}
	}
}

// cutShort is the answer to a body of which the rest cannot be read.
func (s *Session) cutShort(err error) error {
	s.W.Header().Set("Connection", "close")
	if code := fsys.CodeOf(err); code == fsys.Timeout {
		return failed(http.StatusRequestTimeout, fsys.Timeout, "the request body did not arrive in time")
	}
	return fsys.E(fsys.Canceled, "the request body was cut short")
}

// minRate is how many bytes of a body come in a second, at least: a client that
// sends it by the byte keeps from others what may be received at once.
const minRate = 16 << 10

// patience returns until when more has to come of a body that began to come
// then, and of which so much is there.
func (s *Server) patience(began time.Time, there int) time.Time {
	soon, atLast := time.Now().Add(s.ReadTimeout), began.Add(s.ReadTimeout+time.Duration(there)*time.Second/minRate)
	if atLast.Before(soon) {
		return atLast
	}
	return soon
}

func (s *Session) tooLarge() error {
	s.W.Header().Set("Connection", "close")
	return fsys.E(fsys.TooLarge, "the request body is longer than this server accepts")
}

// Keep takes account of n bytes that the request makes the daemon keep, and
// waits up to a second for room if it must.
func (s *Session) Keep(n int64) error { return s.Part.Wait(s.R.Context(), share.Data, n) }

// Grow returns b with room for as much again, and takes account of that.
func (s *Session) Grow(b []byte) ([]byte, error) {
	had := int64(cap(b))
	want := max(512, 2*had)
	if err := s.Keep(want); err != nil {
		return b, err
	}
	b = append(make([]byte, 0, want), b...)
	s.Part.Give(share.Data, had)
	return b, nil
}

// Open opens n, and takes account of what the open file keeps.
func (s *Session) Open(ctx context.Context, n fsys.Node, flag fsys.Flag) (fsys.Handle, error) {
	done, err := s.Part.Make(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	h, err := n.Open(ctx, flag)
	if err == nil && !s.Part.Reserve(share.Files, fsys.Held(h)) {
		h.Close()
		err = share.ErrFull
	}
	if err != nil {
		return nil, err
	}
	return h, nil
}

// stat says what n is. Of some files it has to make the text for that.
func (s *Session) stat(ctx context.Context, n fsys.Node) (fsys.Info, error) {
	done, err := s.Part.Make(ctx)
	if err != nil {
		return fsys.Info{}, err
	}
	defer done()
	return n.Stat(ctx)
}

// Wait returns the longest that a read may block; 0 is for ever.
func (s *Session) Wait() (wait time.Duration, given bool, err error) {
	text := s.R.URL.Query().Get("wait")
	if text == "" {
		return 0, false, nil
	}
	wait, err = time.ParseDuration(text)
	if err != nil || wait < 0 {
		return 0, false, fsys.E(fsys.Invalid, "wait must be a duration such as 5s or 500ms, not "+shortened(text))
	}
	return wait, true, nil
}

// accepts reports whether the client asks for a media type.
func (s *Session) accepts(want string) bool {
	for _, header := range s.R.Header.Values("Accept") {
		for part := range strings.SplitSeq(header, ",") {
			if got, _, err := mime.ParseMediaType(part); err == nil && got == want {
				return true
			}
		}
	}
	return false
}
