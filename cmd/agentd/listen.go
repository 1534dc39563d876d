package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"agent9/cmd/internal/addr"
	"agent9/fsys"
)

// A place is where to listen, as net.Listen takes it.
type place struct{ network, address string }

// places returns what --listen says, or the default. TCP beyond loopback needs
// TLS.
func places(s settings) ([]place, error) {
	if len(s.listen) == 0 {
		return []place{{"unix", addr.DefaultSocket()}}, nil
	}
	var all []place
	for _, at := range s.listen {
		network, address, err := addr.Parse(at)
		if err != nil {
			return nil, usage(err)
		}
		if network == "tcp" && s.cert == "" && !isLoopback(address) {
			return nil, usage(beyondLoopback(at))
		}
		all = append(all, place{network, address})
	}
	return all, nil
}

func beyondLoopback(at string) error {
	return fsys.E(fsys.Invalid, at+" can be reached from other machines: give --tls-cert and --tls-key, or listen on 127.0.0.1")
}

// listen opens p; config is for TCP, and nil without TLS. Of directories, only
// that of the default socket is made.
func listen(p place, config *tls.Config) (net.Listener, error) {
	if p.network == "unix" {
		dir := filepath.Dir(p.address)
		if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) && p.address != addr.DefaultSocket() {
			return nil, fsys.E(fsys.NotExist, "the socket "+p.address+" cannot be made, as there is no directory "+dir+": make that first, or choose another path")
		}
		return listenUnix(p.address)
	}
	l, err := net.Listen(p.network, p.address)
	if err != nil {
		return nil, fsys.Wrap(fsys.Unavailable, "listening on "+addr.String(p.network, p.address), err)
	}
	return secured(l, config), nil
}

// secured is l with TLS, if that is for it.
func secured(l net.Listener, config *tls.Config) net.Listener {
	if config == nil || l.Addr().Network() == "unix" {
		return l
	}
	return tls.NewListener(l, config)
}

func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// maxSocketPath is how long the path of a socket may be, in bytes.
const maxSocketPath = len(syscall.RawSockaddrUnix{}.Path) - 1

// listenUnix listens on a socket that only this user can open. What a daemon
// that died left at path is replaced; what a living one has is not.
func listenUnix(path string) (net.Listener, error) {
	if len(path) > maxSocketPath {
		return nil, fsys.E(fsys.NameTooLong, fmt.Sprintf("the path of the socket %s is too long: it has %d bytes, and the system takes %d; choose a shorter one", path, len(path), maxSocketPath))
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fsys.Wrap(fsys.Unavailable, "the directory of the socket "+path, err)
	}
	if info, err := os.Lstat(path); err == nil {
		if info.Mode()&os.ModeSocket == 0 {
			return nil, fsys.E(fsys.Exist, path+" exists and is not a socket; choose another path")
		}
		conn, err := net.DialTimeout("unix", path, time.Second)
		if err == nil {
			conn.Close()
			return nil, fsys.E(fsys.Busy, "another daemon listens on "+path)
		}
		if !errors.Is(err, syscall.ECONNREFUSED) {
			return nil, fsys.Wrap(fsys.Busy, path+" is in use", err)
		}
		if err := os.Remove(path); err != nil {
			return nil, fsys.Wrap(fsys.Unavailable, "removing the stale socket "+path, err)
		}
	}
	restore := privateUmask()
	defer restore()
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fsys.Wrap(fsys.Unavailable, "listening on "+path, err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, fsys.Wrap(fsys.Unavailable, "the socket "+path, err)
	}
	return l, nil
}
