//go:build !unix

package main

// inner performs the subcommands that are not for people. There is no sandbox
// on this system.
func inner([]string) (code int, ok bool) { return 0, false }
