//go:build unix

package main

import "agent9/providers/sandboxes/box"

// inner performs the subcommands that are not for people.
func inner(args []string) (code int, ok bool) {
	if len(args) > 0 && args[0] == box.Name {
		return box.Main(args[1:]), true
	}
	if len(args) > 0 && args[0] == box.Measure {
		return box.Measuring(args[1:]), true
	}
	return launched(args)
}
