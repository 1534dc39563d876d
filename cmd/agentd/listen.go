package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"agent9/cmd/internal/addr"
	"agent9/fsys"
)

// listen opens an address that is written as addr.Parse takes it. TCP beyond
// loopback needs TLS.
func listen(at string, config *tls.Config) (net.Listener, error) {
	network, address, err := addr.Parse(at)
	if err != nil {
		return nil, err
	}
	if network == "unix" {
		return listenUnix(address)
	}
	if config == nil && !isLoopback(address) {
		return nil, fsys.E(fsys.Invalid, at+" can be reached from other machines: give --tls-cert and --tls-key, or listen on 127.0.0.1")
	}
	l, err := net.Listen(network, address)
	if err != nil {
		return nil, fsys.Wrap(fsys.Unavailable, "listening on "+at, err)
	}
	if config != nil {
		l = tls.NewListener(l, config)
	}
	return l, nil
}

func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// listenUnix listens on a socket that only this user can open. What a daemon
// that died left at path is replaced; what a living one has is not.
func listenUnix(path string) (net.Listener, error) {
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
	return l, nil
}

// tlsConfig returns nil if no certificate is given.
func tlsConfig(s settings) (*tls.Config, error) {
	if s.cert == "" && s.key == "" && s.clientCA == "" {
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(s.cert, s.key)
	if err != nil {
		return nil, fsys.Wrap(fsys.Invalid, "--tls-cert and --tls-key", err)
	}
	c := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	if s.clientCA != "" {
		pem, err := os.ReadFile(s.clientCA)
		if err != nil {
			return nil, fsys.Wrap(fsys.Invalid, "--tls-client-ca", err)
		}
		c.ClientCAs = x509.NewCertPool()
		if !c.ClientCAs.AppendCertsFromPEM(pem) {
			return nil, fsys.E(fsys.Invalid, "--tls-client-ca: no certificate in "+s.clientCA)
		}
		c.ClientAuth = tls.VerifyClientCertIfGiven
	}
	return c, nil
}
