// Agentd is the daemon: it keeps agents, and serves them as files over 9P.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"agent9/fsys"
)

func main() {
	noDump()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := app().RunContext(ctx, os.Args); err != nil {
		reason := fsys.ReasonOf(err)
		if reason == "" {
			reason = err.Error()
		}
		fmt.Fprintln(os.Stderr, "agentd: "+reason)
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
