package main

import (
	"context"
	"log/slog"
	"time"

	sd "github.com/coreos/go-systemd/v22/daemon"
)

// tell says to the service manager how the daemon is, if one wants to know: see
// sd_notify(3).
func tell(log *slog.Logger, state string) {
	if _, err := sd.SdNotify(false, state); err != nil {
		log.Warn("the service manager does not hear", "state", state, "err", err)
	}
}

// watch tells the service manager that the daemon lives, as often as that wants,
// until ctx ends. alive returns when the daemon has answered.
func watch(ctx context.Context, log *slog.Logger, alive func(context.Context) error) {
	every, err := sd.SdWatchdogEnabled(false)
	if err != nil || every == 0 {
		return
	}
	ticker := time.NewTicker(every / 2)
	defer ticker.Stop()
	for {
		if err := alive(ctx); err == nil {
			tell(log, sd.SdNotifyWatchdog)
		} else if ctx.Err() == nil {
			log.Error("the daemon does not answer", "err", err)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}
