// Agentd is the daemon: it keeps agents, and serves them as files over 9P.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"

	"agent9/cmd/internal/plain"
	"agent9/fsys"
)

func main() {
	noDump()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	a := app()
	log.SetOutput(a.ErrWriter) // that of the libraries, and of slog
	if err := a.RunContext(ctx, os.Args); err != nil {
		reason := fsys.ReasonOf(err)
		if reason == "" {
			reason = err.Error()
		}
		fmt.Fprintln(a.ErrWriter, "agentd: "+plain.Line(reason))
		stop()
		if errors.Is(err, errUsage) {
			os.Exit(2)
		}
		if e := (ended{}); errors.As(err, &e) {
			os.Exit(e.status)
		}
		os.Exit(1)
	}
}
