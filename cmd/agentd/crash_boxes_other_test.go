//go:build !linux

package main

import "testing"

// Only under Linux the providers of sandboxes find what a daemon that was
// killed has left.
func sandboxPromises(*testing.T) ([]promise, []string) { return nil, nil }

func (d *daemon) strayGroups() []string { return nil }
