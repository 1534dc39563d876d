//go:build !linux

package main

import (
	"testing"

	"agent9/conformance/daemon"
)

// Only under Linux the providers of sandboxes find what a daemon that was
// killed has left.
func sandboxPromises(*testing.T) ([]promise, []string) { return nil, nil }

func strayGroups(*daemon.Daemon) []string { return nil }
