package main

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"sync"
	"time"

	"agent9/fsys"
	"agent9/fsys/export/web"
	"agent9/fsys/ninep"
	"agent9/fsys/share"
	"agent9/services/host"
	"agent9/services/tokens"
)

// logins know who asks over HTTP. A token is looked up once for all the
// requests that come with it one soon after the other.
type logins struct {
	host *host.Host
	life context.Context

	mu   sync.Mutex
	open map[[sha256.Size]byte]*login // by token
}

// A login is a token that was good when it was looked up, until its grant is
// done.
type login struct {
	grant web.Grant
	end   context.CancelFunc
	users int         // requests under way; guarded by logins.mu
	timer *time.Timer // runs while there are none
}

// loginIdle is how long a token is remembered after the last request.
const loginIdle = time.Minute

func newLogins(life context.Context, h *host.Host) *logins {
	return &logins{host: h, life: life, open: map[[sha256.Size]byte]*login{}}
}

// attach is what a [web.Server] asks for each request.
func (l *logins) attach(ctx context.Context, peer web.Peer, bearer string) (web.Grant, error) {
	if bearer != "" {
		return l.token(ctx, bearer)
	}
	if peer.Addr != nil && peer.Addr.Network() == "unix" && sameUser(ninep.Peer{UID: peer.UID}) {
		return web.Grant{Root: l.host.Root(), Caller: fsys.Operator, By: share.Operator}, nil
	}
	if name, ok := certified(peer.TLS); ok {
		root, err := l.host.Agent(ctx, name)
		if err != nil {
			return web.Grant{}, err
		}
		return grantOf(root, name, byCertificate(peer.TLS), nil), nil
	}
	return web.Grant{}, fsys.E(fsys.Permission, "a token is needed")
}

// token returns what the bearer of secret may see.
func (l *logins) token(ctx context.Context, secret string) (web.Grant, error) {
	key := sha256.Sum256([]byte(secret))
	if known, ok := l.use(ctx, key); ok {
		return known, nil
	}
	life, end := context.WithCancel(l.life)
	root, name, done, err := l.host.Token(ctx, life, secret)
	if err != nil {
		end()
		return web.Grant{}, err
	}
	made := &login{grant: grantOf(root, name, byToken(secret), done), end: end}
	made.timer = time.AfterFunc(loginIdle, func() { l.forget(key, made) })
	l.mu.Lock()
	l.open[key] = made // another one, made at the same time, ends by itself
	l.mu.Unlock()
	if grant, ok := l.use(ctx, key); ok {
		return grant, nil
	}
	return web.Grant{}, fsys.E(fsys.Permission, "the token has just ended")
}

// use returns the grant of a token that is known, which is used until ctx
// ends.
func (l *logins) use(ctx context.Context, key [sha256.Size]byte) (web.Grant, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	in := l.open[key]
	if in == nil {
		return web.Grant{}, false
	}
	select {
	case <-in.grant.Done:
		delete(l.open, key)
		return web.Grant{}, false
	default:
	}
	in.users++
	in.timer.Stop()
	context.AfterFunc(ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if in.users--; in.users == 0 {
			in.timer.Reset(loginIdle)
		}
	})
	return in.grant, true
}

// forget ends a login that nobody has used for a while.
func (l *logins) forget(key [sha256.Size]byte, in *login) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if in.users > 0 {
		return
	}
	if l.open[key] == in {
		delete(l.open, key)
	}
	in.end()
}

// certified returns the agent in whose name the client has a certificate.
func certified(state *tls.ConnectionState) (name string, ok bool) {
	if state == nil || len(state.VerifiedChains) == 0 {
		return "", false
	}
	return state.PeerCertificates[0].Subject.CommonName, true
}

// grantOf shows one agent's tree where the operator sees it: agents/NAME. A
// token of the operator's, whose name is [tokens.AllAgents], shows the host's.
func grantOf(root fsys.Node, name, by string, done <-chan struct{}) web.Grant {
	if name == tokens.AllAgents {
		return web.Grant{Root: root, Caller: fsys.Operator, By: by, Done: done}
	}
	only := fsys.NewTable(fsys.Entry{Name: name, Node: root})
	top := fsys.NewTable(fsys.Entry{Name: "agents", Node: only})
	return web.Grant{Root: top, Caller: fsys.Caller(name), Agent: name, By: by, Done: done}
}
