// Agentbench measures agent9 as its clients see it, and others beside it.
//
//	agentbench [FLAGS] [SUITE...]
//
// It starts agentd and, where they can be had, servers of others as processes
// of their own, puts the same files into each, and drives all with the same
// bare client, by turns in one run. What counts are ratios; times say as much
// about the machine. See docs/performance.md.
//
// The suites, all of them by default:
//
//	wire     small requests, one outstanding and many, whole files
//	flush    Tflush while thousands of reads block
//	fanout   one event to thousands of blocked readers, and their memory
//	inbox    durable messages by many writers, beside brokers and bare fsyncs
//	mount    what programs see through FUSE
//	agents   creating agents, their memory, the start with many
//	scale    whether what lies there already makes anything slower
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	if len(os.Args) == 3 && os.Args[1] == floorCommand {
		exit(floor(os.Args[2]))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := app().RunContext(ctx, os.Args)
	stop()
	exit(err)
}

func exit(err error) {
	if err == nil {
		os.Exit(0)
	}
	fmt.Fprintln(os.Stderr, "agentbench:", err)
	if errors.Is(err, errUsage) {
		os.Exit(2)
	}
	os.Exit(1)
}
