package main

import (
	"fmt"
	"os"

	"agent9/providers/sandboxes/bwrap/launch"
)

// launched follows the plan that is the argument of the subcommand launch.
func launched(args []string) (code int, ok bool) {
	if len(args) != 2 || args[0] != launch.Name {
		return 0, false
	}
	fmt.Fprintln(os.Stderr, "a9:", launch.Run(args[1]))
	return 1, true
}
