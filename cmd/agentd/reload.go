package main

import (
	"context"
	"crypto/tls"
	"log/slog"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"

	sd "github.com/coreos/go-systemd/v22/daemon"

	"agent9/fsys"
)

// A tlsFiles is the configuration of TLS as its files were when they were last
// read. Connections keep the one that they began with.
type tlsFiles struct {
	s   settings
	now atomic.Pointer[tls.Config]
}

// openTLS reads the files that the command line names; nil if it names none.
func openTLS(s settings) (*tlsFiles, error) {
	t := &tlsFiles{s: s}
	if err := t.read(); err != nil {
		return nil, err
	}
	if t.now.Load() == nil {
		return nil, nil
	}
	return t, nil
}

// read reads the files again. If they cannot be used, all stays as it was.
func (t *tlsFiles) read() error {
	c, err := tlsConfig(t.s)
	if err == nil {
		t.now.Store(c)
	}
	return err
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
		switch {
		case t == nil:
			log.Info("there is nothing to reload: no certificate is given")
		default:
			if err := t.read(); err != nil {
				log.Error("the certificate was not reloaded, and the old one stays", "reason", fsys.ReasonOf(err))
			} else {
				log.Info("the certificate was reloaded")
			}
		}
		tell(log, sd.SdNotifyReady)
	}
}
