package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"

	sd "github.com/coreos/go-systemd/v22/daemon"

	"agent9/fsys"
)

// A tlsFiles is the configuration of TLS as its files were when they were last
// read and could be used, each on its own. Connections keep the one that they
// began with. Apart from [tlsFiles.config], it is for one goroutine.
type tlsFiles struct {
	s    settings
	pair tls.Certificate
	cas  *x509.CertPool // nil: none are named
	now  atomic.Pointer[tls.Config]
}

// openTLS reads the files that the command line names; nil if it names none.
func openTLS(s settings) (*tlsFiles, error) {
	switch {
	case (s.cert == "") != (s.key == ""):
		return nil, usage(fsys.E(fsys.Invalid, "--tls-cert and --tls-key are given together"))
	case s.cert == "" && s.clientCA != "":
		return nil, usage(fsys.E(fsys.Invalid, "--tls-client-ca needs --tls-cert and --tls-key"))
	case s.cert == "":
		return nil, nil
	}
	t := &tlsFiles{s: s}
	for _, part := range t.parts() {
		if err := part.read(); err != nil {
			return nil, fsys.Wrap(fsys.Invalid, part.flags, err)
		}
	}
	t.use()
	return t, nil
}

// A tlsPart is files that are read together.
type tlsPart struct {
	flags string
	files []string
	read  func() error // changes nothing if they cannot be used
}

func (t *tlsFiles) parts() []tlsPart {
	parts := []tlsPart{{"--tls-cert and --tls-key", []string{t.s.cert, t.s.key}, t.readPair}}
	if t.s.clientCA != "" {
		parts = append(parts, tlsPart{"--tls-client-ca", []string{t.s.clientCA}, t.readCAs})
	}
	return parts
}

func (t *tlsFiles) readPair() error {
	pair, err := tls.LoadX509KeyPair(t.s.cert, t.s.key)
	if err == nil {
		t.pair = pair
	}
	return err
}

func (t *tlsFiles) readCAs() error {
	pem, err := os.ReadFile(t.s.clientCA)
	if err != nil {
		return err
	}
	cas := x509.NewCertPool()
	if !cas.AppendCertsFromPEM(pem) {
		return errors.New("no certificate in " + t.s.clientCA)
	}
	t.cas = cas
	return nil
}

// use gives new connections what was read.
func (t *tlsFiles) use() {
	c := &tls.Config{Certificates: []tls.Certificate{t.pair}, MinVersion: tls.VersionTLS12}
	if t.cas != nil {
		c.ClientCAs, c.ClientAuth = t.cas, tls.VerifyClientCertIfGiven
	}
	t.now.Store(c)
}

// config is for listeners: each connection is given what was read last.
func (t *tlsFiles) config() *tls.Config {
	if t == nil {
		return nil
	}
	c := t.now.Load().Clone()
	c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return t.now.Load(), nil }
	return c
}

// reload reads the files again, and tells log of each what came of it.
func (t *tlsFiles) reload(log *slog.Logger) {
	if t == nil {
		log.Info("there is nothing to read again: the command line names no files")
		return
	}
	for _, part := range t.parts() {
		if err := part.read(); err != nil {
			log.Error(part.flags+": the files cannot be used, and what was read before stays", "files", part.files, "reason", fsys.ReasonOf(fsys.Wrap(fsys.Invalid, "", err)))
		} else {
			log.Info(part.flags+": read again", "files", part.files)
		}
	}
	t.use()
}

// hangups returns what SIGHUP is sent to, which is not the end of the program
// any more, until done is called.
func hangups() (hup <-chan os.Signal, done func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGHUP)
	return c, func() { signal.Stop(c) }
}

// reloads reads the files of TLS again at every hangup, until ctx ends.
func reloads(ctx context.Context, log *slog.Logger, hup <-chan os.Signal, t *tlsFiles) {
	for {
		select {
		case <-hup:
		case <-ctx.Done():
			return
		}
		tell(log, reloading())
		t.reload(log)
		tell(log, sd.SdNotifyReady)
	}
}
