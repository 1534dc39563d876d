//go:build !linux

package main

import sd "github.com/coreos/go-systemd/v22/daemon"

// reloading is what is told when the configuration is read again.
func reloading() string { return sd.SdNotifyReloading }
