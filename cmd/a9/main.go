// A9 is the program of agent9 in a sandbox. For programs and people there it
// is a client of the agent that they work for, whose tree is at AGENT9_ADDR:
//
//	a9 ls [PATH...]           names, one per line
//	a9 cat PATH...            contents; of a stream, as they come
//	a9 read PATH              the same, of one file
//	a9 write PATH [WORD...]   writes the words, or else its input
//	a9 call PATH [WORD...]    writes, then prints the reply
//	a9 rm PATH...             removes
//	a9 mkdir PATH...          makes directories
//	a9 status                 the agent's status
//	a9 help                   this
//
// Paths begin at the agent's root. The exit status is 0, 1 if it failed, and 2
// if it was not understood.
//
// For agentd, which starts it, it is the box: see package box.
package main

import (
	"context"
	"os"
	"os/signal"
)

func main() {
	if code, ok := inner(os.Args[1:]); ok {
		os.Exit(code)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
