package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"agent9/cmd/internal/addr"
	"agent9/fsys"
	"agent9/fsys/ninep"
	"agent9/namespace/budget"
	"agent9/providers/compute"
	"agent9/services/host"
)

// settings is the command line.
type settings struct {
	data, mount         string
	listen, compute     []string
	cert, key, clientCA string
	limits              budget.Limits
	debug               bool
	messages            io.Writer
	getenv              func(string) string
	listening           func(at string)
}

// grace is how long the end of the daemon waits for what is under way.
const grace = 5 * time.Second

// serve runs the daemon until ctx ends or the operator shuts it down.
func serve(ctx context.Context, s settings) error {
	level := slog.LevelInfo
	if s.debug {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(s.messages, &slog.HandlerOptions{Level: level}))
	ctx, shutdown := context.WithCancel(ctx)
	defer shutdown()

	providers, err := providersOf(ctx, s)
	if err != nil {
		return err
	}
	places, err := places(s)
	if err != nil {
		return err
	}
	config, err := tlsConfig(s)
	if err != nil {
		return err
	}
	db, err := openStore(s.data)
	if err != nil {
		return err
	}
	defer func() {
		if err := db.Close(); err != nil {
			log.Error("closing the database", "err", err)
		}
	}()
	ring, err := openRing(ctx, s.data, db)
	if err != nil {
		return err
	}

	own, err := newSockets(filepath.Join(s.data, "sockets"))
	if err != nil {
		return err
	}
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	h, err := host.Open(life, host.Options{
		Store: db, Ring: ring, Providers: providers, Limits: s.limits, Now: time.Now,
		Socket: own.Open, Unsocket: own.Close, Shutdown: shutdown,
	})
	if err != nil {
		return err
	}
	defer func() { // before the database closes
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
		defer cancel()
		if err := h.Close(ctx); err != nil {
			log.Warn("some work did not end in time", "err", err)
		}
	}()
	own.host = h

	own.server = func(attach attachFunc) *ninep.Server { return &ninep.Server{Attach: attach, Log: log} }
	var servers []*ninep.Server
	defer func() { hangUp(ctx, log, servers, own) }()

	failed := make(chan error, len(places))
	for _, p := range places {
		l, err := listen(p, config)
		if err != nil {
			return err
		}
		defer l.Close()
		attach := attachTCP(h)
		if l.Addr().Network() == "unix" {
			attach = attachOperator(h)
		}
		srv := own.server(attach)
		servers = append(servers, srv)
		go func() { failed <- srv.Serve(l) }()
		s.listening(addr.String(l.Addr().Network(), l.Addr().String()))
	}
	if s.mount != "" {
		unmount, err := mount(life, h.Root(), s.mount)
		if err != nil {
			return err
		}
		defer unmount()
		fmt.Fprintln(s.messages, "mounted on "+s.mount)
	}
	for _, p := range providers {
		log.Info("compute provider", "id", p.ID(), "driver", p.Info().Driver)
	}
	select {
	case <-ctx.Done():
		log.Info("ending")
		return nil
	case err := <-failed:
		return fsys.Wrap(fsys.Unavailable, "a listener failed", err)
	}
}

func providersOf(ctx context.Context, s settings) ([]*compute.Runner, error) {
	specs := s.compute
	if len(specs) == 0 {
		specs = found(ctx, s.getenv)
	}
	var all []*compute.Runner
	for _, spec := range specs {
		p, err := provider(spec, s.getenv)
		if err != nil {
			return nil, usage(err)
		}
		if slices.ContainsFunc(all, func(o *compute.Runner) bool { return o.ID() == p.ID() }) {
			return nil, usage(fsys.E(fsys.Invalid, "--compute: two providers are called "+p.ID()))
		}
		all = append(all, p)
	}
	return all, nil
}

// hangUp ends what serves 9P.
func hangUp(ctx context.Context, log *slog.Logger, servers []*ninep.Server, own *sockets) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	err := own.CloseAll(ctx)
	for _, srv := range servers {
		err = errors.Join(err, srv.Shutdown(ctx))
	}
	if err != nil {
		log.Warn("some connections did not end in time", "err", err)
	}
}
