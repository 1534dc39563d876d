package main

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"path"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"agent9/cmd/internal/addr"
	"agent9/fsys"
	"agent9/fsys/ninep"
)

// A session is a connection to a daemon, attached to what the user may see.
type session struct {
	*cli.Context
	client *ninep.Client
	root   *ninep.Remote
}

// patience is how long a command that was interrupted may take to put things
// in order before it is left behind.
const patience = 5 * time.Second

// attached makes a command of f, which is given a session. An interrupt ends
// the command whatever f is waiting for.
func attached(f func(*session) error, options ...string) cli.ActionFunc {
	return func(c *cli.Context) error {
		s, err := dial(c, "9P2000", options...)
		if err != nil {
			return err
		}
		defer s.client.Close()
		done := make(chan error, 1)
		go func() { done <- f(s) }()
		select {
		case err = <-done:
			return s.cutOff(err)
		case <-c.Done():
		}
		select {
		case err = <-done:
			return s.cutOff(err)
		case <-time.After(patience):
			return context.Cause(c.Context)
		}
	}
}

// cutOff says of err that the daemon went away, if it did.
func (s *session) cutOff(err error) error {
	select {
	case <-s.client.Done():
		if err != nil {
			return &noDaemon{err}
		}
	default:
	}
	return err
}

// dial connects with the given version of 9P and attaches: 9P2000 carries the
// reasons of errors, 9P2000.L what a mount needs. Options are those of an aname.
func dial(c *cli.Context, version string, options ...string) (*session, error) {
	where := c.String("addr")
	if where == "" {
		where = addr.String("unix", addr.DefaultSocket())
	}
	network, address, err := addr.Parse(where)
	if err != nil {
		return nil, usagef("%s", fsys.ReasonOf(err))
	}
	opts := []ninep.DialOption{ninep.DialVersion(version)}
	if conf, err := tlsConfig(c); err != nil {
		return nil, err
	} else if conf != nil {
		opts = append(opts, ninep.DialTLS(conf))
	}
	client, err := dialPatiently(c, where, func() (*ninep.Client, error) { return ninep.Dial(c.Context, network, address, opts...) })
	if err != nil {
		return nil, &noDaemon{at(where, unreachable(err))}
	}
	root, err := client.Attach(c.Context, "", aname(c.String("token"), version, options))
	if err != nil {
		client.Close()
		if fsys.CodeOf(err) == fsys.NotExist && c.String("token") != "" {
			err = fsys.E(fsys.NotExist, "what --token or AGENT9_TOKEN says is neither a token nor a path here")
		}
		return nil, at(where, err)
	}
	return &session{c, client, root}, nil
}

// How often it is looked whether a daemon is there, and how long nothing is said
// of that.
const (
	lookAgain  = 20 * time.Millisecond
	quietUntil = 100 * time.Millisecond
)

// dialPatiently dials until a daemon listens there, at most for as long as
// --wait says: one that was just started is about to.
func dialPatiently(c *cli.Context, where string, dial func() (*ninep.Client, error)) (*ninep.Client, error) {
	begun, said := time.Now(), false
	ticker := time.NewTicker(lookAgain)
	defer ticker.Stop()
	for {
		client, err := dial()
		took := time.Since(begun)
		if err == nil || took >= c.Duration(waitFlag) || !refused(err) && !errors.Is(err, fs.ErrNotExist) {
			return client, err
		}
		if !said && took >= quietUntil {
			said = true
			notice(c.App.ErrWriter, "waiting for agentd at %s", where)
		}
		select {
		case <-ticker.C:
		case <-c.Done():
			return nil, context.Cause(c.Context)
		}
	}
}

// listAll is the option for who shows names to a person, who sees then also
// those that are only to be walked to.
const listAll = "list=all"

// aname adds options to a token, and asks for whole reasons in error texts
// where there are texts.
func aname(token, version string, options []string) string {
	if version == "9P2000" {
		options = append([]string{"errors=full"}, options...)
	}
	for _, o := range options {
		if strings.Contains(token, "?") {
			token += "&" + o
		} else {
			token += "?" + o
		}
	}
	return token
}

// unreachable says for a person why there is no connection.
func unreachable(err error) error {
	var op *net.OpError
	switch {
	case refused(err), errors.Is(err, fs.ErrNotExist):
		return fsys.E(fsys.Unavailable, "no daemon there; start it with agentd --background, or give its address with --addr")
	case errors.Is(err, fs.ErrPermission):
		return fsys.E(fsys.Permission, "this user may not connect; the socket is for the user of the daemon")
	case errors.As(err, &op) && op.Err != nil:
		return fsys.E(fsys.Unavailable, op.Err.Error())
	}
	return err
}

// clean returns p as a path below the root, without a slash before it.
func clean(p string) string { return path.Clean("/" + p)[1:] }

// walk walks to p, which may begin with a slash.
func (s *session) walk(p string) (fsys.Node, error) {
	n, err := s.root.WalkPath(s.Context.Context, clean(p))
	return n, s.elsewhere(p, err)
}

// readJSON reads the JSON object in file into v and, if raw is not nil, as it
// is into raw.
func (s *session) readJSON(file string, v any, raw *[]byte) error {
	b, err := s.readFile(file)
	if err == nil {
		err = json.Unmarshal(b, v)
	}
	if raw != nil {
		*raw = b
	}
	return at(file, err)
}

// readFile reads the whole file at p.
func (s *session) readFile(p string) ([]byte, error) {
	h, err := s.open(p, fsys.Read)
	if err != nil {
		return nil, err
	}
	b, err := fsys.ReadAll(s.Context.Context, h)
	return b, s.finish(h, err)
}

// open walks to p and opens it.
func (s *session) open(p string, flag fsys.Flag) (fsys.Handle, error) {
	h, err := s.root.OpenPath(s.Context.Context, clean(p), flag)
	return h, s.elsewhere(p, err)
}

// finish ends h in order after err: what was gathered acts now.
func (s *session) finish(h fsys.Handle, err error) error {
	return finish(s.Context.Context, h, err)
}

func finish(ctx context.Context, h fsys.Handle, err error) error {
	if err != nil {
		h.Close()
		return err
	}
	return fsys.Finish(ctx, h)
}

// converse writes req to the Message file at p and returns the reply.
func (s *session) converse(ctx context.Context, p string, req []byte) ([]byte, error) {
	h, err := s.root.OpenPath(ctx, clean(p), fsys.Read|fsys.Write)
	if err != nil {
		return nil, at(p, err)
	}
	var reply []byte
	if _, err = fsys.WriteAt(ctx, h, req, 0); err == nil {
		reply, err = fsys.ReadAll(ctx, h)
	}
	return reply, at(p, finish(ctx, h, err))
}
