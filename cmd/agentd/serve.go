package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	sd "github.com/coreos/go-systemd/v22/daemon"
	"github.com/prometheus/client_golang/prometheus"

	"agent9/cmd/internal/addr"
	"agent9/fsys"
	"agent9/fsys/locks"
	"agent9/fsys/ninep"
	"agent9/fsys/share"
	"agent9/namespace/budget"
	"agent9/providers/models"
	"agent9/providers/tools/mcp"
	"agent9/services/host"
	"agent9/services/identity"
	"agent9/store"
)

// settings is the command line.
type settings struct {
	data, mount         string
	listen, compute     []string
	http                []string
	httpCORS, httpHosts []string
	containers          []string
	unsafeHost          bool
	cert, key, clientCA string
	limits              budget.Limits
	maxTicks            int
	maxConns            int
	pool                *share.Pool
	debug               bool
	messages            io.Writer
	getenv              func(string) string
	listening           func(at string)
	ready               func() // called once, when the daemon serves; may be nil
}

// grace is how long the end of the daemon waits for what is under way.
const grace = 5 * time.Second

// serve runs the daemon until ctx ends or the operator shuts it down.
func serve(ctx context.Context, s settings) error {
	defer runtime.KeepAlive(newSpare())
	level := slog.LevelInfo
	if s.debug {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(s.messages, &slog.HandlerOptions{Level: level}))
	ctx, shutdown := context.WithCancel(ctx)
	defer shutdown()
	hup, deaf := hangups()
	defer deaf()

	passphrase, err := identity.TakePassphrase() // before anything looks at the environment
	if err != nil {
		return err
	}
	if s.data, err = filepath.Abs(s.data); err != nil { // programs run elsewhere
		return fsys.Wrap(fsys.Unavailable, "the data directory", err)
	}
	providers, err := providersOf(ctx, s, log)
	if err != nil {
		return err
	}
	handed, err := activated(s)
	if err != nil {
		return err
	}
	defer func() {
		for _, l := range handed {
			l.Close()
		}
	}()
	var at []place
	if len(handed) == 0 || len(s.listen) > 0 {
		if at, err = places(s); err != nil {
			return err
		}
	}
	httpPlaces, err := httpPlaces(s)
	if err != nil {
		return err
	}
	files, err := openTLS(s)
	if err != nil {
		return err
	}
	config := files.config()
	db, err := openStore(s.data)
	if err != nil {
		return err
	}
	defer func() {
		if err := db.Close(); err != nil {
			log.Error("closing the database", "err", err)
		}
	}()
	sweepCommands(s.data) // the database is locked: there is no other daemon
	ring, err := openRing(ctx, s.data, db, passphrase)
	if err != nil {
		return err
	}

	yards, err := sandboxProviders(ctx, s, db, log)
	if err != nil {
		return err
	}
	own, err := newSockets(filepath.Join(s.data, "sockets"))
	if err != nil {
		return err
	}
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	traces, endTraces, err := openTrace(ctx, s.getenv)
	if err != nil {
		return err
	}
	defer func() { // after all that can still end
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
		defer cancel()
		if err := endTraces(ctx); err != nil {
			log.Warn("the last traces were not sent", "err", err)
		}
	}()
	durations := newHTTPDurations()
	collectors := []prometheus.Collector{durations, clientUse{s.pool}}
	locked := &locks.Table{}
	h, err := host.Open(life, host.Options{
		Trace: traces, Collectors: collectors,
		Store: db, Ring: ring, Providers: providers, Limits: s.limits, Now: time.Now,
		Programs: makePrograms(s.data), ServeTick: own.Serve, MountTick: mountTick(life, s.data, locked), MaxTicks: s.maxTicks,
		Socket: own.Open, Unsocket: own.Close, Shutdown: shutdown,
		Tools:     mcp.New(version(), s.data),
		Sandboxes: yards, Serve: own.serveInside,
		Spool: s.data,
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

	own.server = func(by string, attach attachFunc) *ninep.Server {
		return &ninep.Server{Locks: locked, Attach: attach, By: by, Log: log, Trace: traces, MaxConns: s.maxConns, Pool: s.pool}
	}
	var servers []*ninep.Server
	defer func() { hangUp(ctx, log, servers, own) }()

	failed := make(chan error, len(handed)+len(at)+len(httpPlaces))
	serve9P := func(l net.Listener) {
		by, attach := share.Stranger, attachTCP(h)
		if l.Addr().Network() == "unix" {
			by, attach = share.Operator, attachOperator(h)
		}
		srv := own.server(by, attach)
		servers = append(servers, srv)
		go func() { failed <- srv.Serve(l) }()
		s.listening(addr.String(l.Addr().Network(), l.Addr().String()))
	}
	for _, p := range at {
		l, err := listen(p, config)
		if err != nil {
			return err
		}
		defer l.Close()
		serve9P(l)
	}
	pages := webServer(newLogins(life, h), s)
	pages.TLS = config
	pages.Log, pages.Observe = log, observe(durations)
	pages.Trace, pages.Cause = traces, cause
	defer func() { endWeb(ctx, log, pages) }()
	serveHTTP := func(l net.Listener) {
		go func() { failed <- pages.Serve(l) }()
		s.listening("http " + addr.String(l.Addr().Network(), l.Addr().String()))
	}
	for _, p := range httpPlaces {
		l, err := listen(p, nil)
		if err != nil {
			return err
		}
		defer l.Close()
		serveHTTP(l)
	}
	for _, g := range handed {
		if g.http {
			serveHTTP(g.Listener)
		} else {
			serve9P(secured(g.Listener, config))
		}
	}
	if s.mount != "" {
		unmount, err := mount(life, h, s.mount, s.pool, locked)
		if err != nil {
			return err
		}
		defer unmount()
		fmt.Fprintln(s.messages, "mounted on "+s.mount)
	}
	h.Start(life)
	defer func() { // before their sockets close
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
		defer cancel()
		if err := h.Rest(ctx); err != nil {
			log.Warn("some programs did not end in time", "err", err)
		}
	}()
	for _, p := range providers {
		log.Info("compute provider", "id", p.ID(), "driver", p.Info().Driver)
	}
	for _, r := range yards {
		log.Info("containers provider", "id", r.ID())
	}
	go reloads(life, log, hup, files)
	go watch(life, log, func(ctx context.Context) error { // a transaction, as that is what everything needs
		return db.Update(ctx, func(store.Store) error { return nil })
	})
	tell(log, sd.SdNotifyReady)
	if s.ready != nil {
		s.ready()
	}
	defer tell(log, sd.SdNotifyStopping)
	select {
	case <-ctx.Done():
		log.Info("ending")
		return nil
	case err := <-failed:
		return fsys.Wrap(fsys.Unavailable, "a listener failed", err)
	}
}

func providersOf(ctx context.Context, s settings, log *slog.Logger) ([]*models.Runner, error) {
	specs := s.compute
	if len(specs) == 0 {
		specs = found(ctx, s.getenv)
	}
	var all []*models.Runner
	for _, spec := range specs {
		p, lacks, err := provider(spec, s.data, s.getenv)
		if err != nil {
			return nil, usage(err)
		}
		if lacks != "" {
			log.Warn("the provider has no key: set the variable before agentd starts", "id", p.ID(), "variable", lacks)
		}
		if slices.ContainsFunc(all, func(o *models.Runner) bool { return o.ID() == p.ID() }) {
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
