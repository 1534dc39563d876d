package main

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"os"
	"strconv"
	"strings"

	"agent9/fsys"
	"agent9/fsys/ninep"
	"agent9/fsys/share"
	"agent9/services/agent"
	"agent9/services/host"
	"agent9/services/tokens"
)

// tokenMark begins an aname that is a token. A path may follow it.
const tokenMark = "a9_"

// attachFunc is what a listener does with an attach: uname is a claim, so it
// is not looked at.
type attachFunc = func(ctx context.Context, peer ninep.Peer, uname, aname string) (ninep.Grant, error)

// attachOperator lets the daemon's own user and root see everything, from the
// operator's socket.
func attachOperator(h *host.Host) attachFunc {
	return func(ctx context.Context, peer ninep.Peer, _, aname string) (ninep.Grant, error) {
		if strings.HasPrefix(aname, tokenMark) {
			return attachToken(ctx, peer, h, aname)
		}
		if !sameUser(peer) {
			return ninep.Grant{}, fsys.E(fsys.Permission, "this socket is the operator's")
		}
		return at(ctx, ninep.Grant{Root: h.Root(), ID: h.ID(), Caller: fsys.Operator, By: share.Operator}, aname)
	}
}

// attachAgent lets the daemon's own user and root see one agent's tree, as
// that agent.
func attachAgent(h *host.Host, name, by string) attachFunc {
	return func(ctx context.Context, peer ninep.Peer, _, aname string) (ninep.Grant, error) {
		if strings.HasPrefix(aname, tokenMark) {
			return attachToken(ctx, peer, h, aname)
		}
		if !sameUser(peer) {
			return ninep.Grant{}, fsys.E(fsys.Permission, "this socket is the agent's")
		}
		root, err := h.Agent(ctx, name)
		if err != nil {
			return ninep.Grant{}, err
		}
		return at(ctx, ninep.Grant{Root: root, Caller: fsys.Caller(name), By: by}, aname)
	}
}

// attachInside lets a program in a sandbox of an agent see what root returns, as
// that agent. What it is inside says nothing here.
func attachInside(name, by string, root agent.Inside) attachFunc {
	return func(ctx context.Context, peer ninep.Peer, _, aname string) (ninep.Grant, error) {
		tree, done, err := root(ctx, peer.Life)
		if err != nil {
			return ninep.Grant{}, err
		}
		return at(ctx, ninep.Grant{Root: tree, Caller: fsys.Caller(name), By: by, Done: done}, aname)
	}
}

// attachTick lets the daemon's own user and root see what an agent sees in a
// tick, as that agent.
func attachTick(name, by string, root fsys.Node) attachFunc {
	return func(ctx context.Context, peer ninep.Peer, _, aname string) (ninep.Grant, error) {
		if !sameUser(peer) {
			return ninep.Grant{}, fsys.E(fsys.Permission, "this socket is the agent's")
		}
		return at(ctx, ninep.Grant{Root: root, Caller: fsys.Caller(name), By: by}, aname)
	}
}

// attachTCP lets in who has a token, or a certificate in the name of an agent.
func attachTCP(h *host.Host) attachFunc {
	return func(ctx context.Context, peer ninep.Peer, _, aname string) (ninep.Grant, error) {
		if strings.HasPrefix(aname, tokenMark) {
			return attachToken(ctx, peer, h, aname)
		}
		if name, ok := certified(peer.TLS); ok {
			if root, err := h.Agent(ctx, name); err == nil {
				return at(ctx, ninep.Grant{Root: root, Caller: fsys.Caller(name), By: byCertificate(peer.TLS)}, aname)
			}
		}
		return ninep.Grant{}, fsys.E(fsys.Permission, "a token is needed as aname; make one with agentctl token")
	}
}

func attachToken(ctx context.Context, peer ninep.Peer, h *host.Host, aname string) (ninep.Grant, error) {
	secret, path, _ := strings.Cut(aname, "/")
	root, name, done, err := h.Token(ctx, peer.Life, secret)
	if err != nil {
		return ninep.Grant{}, err
	}
	caller := fsys.Caller(name)
	if name == tokens.AllAgents {
		caller = fsys.Operator
	}
	return at(ctx, ninep.Grant{Root: root, Caller: caller, By: byToken(secret), Done: done}, path)
}

// byToken is whose share of what clients may make the daemon hold is that of who
// has a token: the token's, not that of the agent, for which there may be others.
func byToken(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return "token " + string(sum[:])
}

// byCertificate is the same for a certificate.
func byCertificate(state *tls.ConnectionState) string {
	sum := sha256.Sum256(state.PeerCertificates[0].Raw)
	return "certificate " + string(sum[:])
}

// bySocket is the same for an agent's own socket, or one for a tick, or the way
// into its sandboxes, which each have a name.
func bySocket(name string) string { return "socket " + name }

// at moves the root of g down to path.
func at(ctx context.Context, g ninep.Grant, path string) (ninep.Grant, error) {
	var err error
	g.Root, g.ID, err = fsys.WalkID(ctx, g.Root, g.ID, path)
	if err != nil && fsys.CodeOf(err) == fsys.NotExist && fsys.ReasonOf(err) == "" {
		err = fsys.E(fsys.NotExist, strconv.Quote(path)+" is neither a token, which begins with "+tokenMark+", nor a path here")
	}
	return g, err
}

// sameUser reports whether a peer on a Unix socket is this user or root. Where
// the system does not say who it is, the mode of the socket decides.
func sameUser(peer ninep.Peer) bool {
	return peer.UID < 0 || peer.UID == 0 || peer.UID == os.Geteuid()
}
