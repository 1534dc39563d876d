package main

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"agent9/conformance/daemon"
	"agent9/fsys/ninep"
	"agent9/namespace/budget"
	"agent9/providers/models"
	"agent9/providers/models/echo"
	"agent9/services/host"
	"agent9/services/identity"
	"agent9/store"
)

// An inside is a host in the process of the test, on a store that the test has
// in its hands, served on a socket as a daemon serves it.
type inside struct {
	*daemon.Daemon // where it is; its process is this one
	store          store.Updater
	providers      []*models.Runner

	stop func()
}

func newInside(t *testing.T, st store.Updater) *inside {
	in := &inside{Daemon: daemon.New(t), store: st}
	in.providers = []*models.Runner{models.NewRunner("echo", echo.New(echo.Config{}))}
	t.Cleanup(func() {
		if in.stop != nil {
			in.stop()
		}
	})
	return in
}

// start opens the host and serves it until stop.
func (in *inside) start() {
	t := in.T
	t.Helper()
	life, end := context.WithCancel(context.WithoutCancel(t.Context()))
	ring, err := identity.RingFromFile(life, store.Sub(in.store, "keyring/"), filepath.Join(in.Dir, "master.key"))
	if err != nil {
		t.Fatal(err)
	}
	own, err := newSockets(filepath.Join(in.Dir, "sockets"))
	if err != nil {
		t.Fatal(err)
	}
	perDay := budget.Micros(1_000_000)
	h, err := host.Open(life, host.Options{
		Store: in.store, Ring: ring, Providers: in.providers, Limits: budget.Limits{PerDay: &perDay}, Now: time.Now,
		Programs: makePrograms(in.Dir), ServeTick: own.Serve, Socket: own.Open, Unsocket: own.Close, Shutdown: func() {},
		Spool: in.Dir,
	})
	if err != nil {
		t.Fatal(err)
	}
	own.host = h
	own.server = func(_ string, attach attachFunc) *ninep.Server { return &ninep.Server{Attach: attach} }
	srv := own.server("", attachOperator(h))
	l, err := listenUnix(in.Sock())
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		srv.Serve(l)
	}()
	h.Start(life)
	in.stop = func() {
		in.stop = nil
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), daemon.Limit)
		defer cancel()
		err := errors.Join(h.Rest(ctx), own.CloseAll(ctx), srv.Shutdown(ctx), h.Close(ctx))
		l.Close()
		<-served
		end()
		if err != nil {
			t.Logf("the end of the host: %v", err)
		}
	}
}
