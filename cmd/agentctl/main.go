// Agentctl is the client of agentd for a shell: each command is a few file
// operations on the tree that the daemon serves over 9P. What it does, cat,
// ls and echo do as well where the tree is mounted.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as nohup has it
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	context.AfterFunc(ctx, stop) // the second signal is not caught
	os.Exit(run(ctx, os.Args, os.Stdin, os.Stdout, os.Stderr))
}
