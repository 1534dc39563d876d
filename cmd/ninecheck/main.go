// Ninecheck asks a 9P server whether it keeps to the protocol.
//
//	ninecheck [flags] ADDR [ANAME]
//	ninecheck unix:/run/agent9.sock agents/alice
//	ninecheck --hostile --write goals tcp:127.0.0.1:564 agents/alice
//
// It prints what it finds with the frames that show it. The exit status is 0
// if nothing was found, 1 if something was, and 2 if nothing could be checked.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the second signal is not caught
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}
