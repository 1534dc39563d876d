package main

import (
	"agent9/conformance/daemon"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// temp is where a daemon has what is temporary, if a test says so.
func temp(d *daemon.Daemon) string { return filepath.Join(d.Dir, "tmp") }

// nothingLeft waits until nothing is there of earlier daemons, and nothing of
// what this one had to do.
func nothingLeft(d *daemon.Daemon, t *testing.T) {
	t.Helper()
	var left []string
	defer func() {
		if t.Failed() {
			t.Logf("left: %q", left)
		}
	}()
	daemon.Eventually(t, "nothing is left of what was done", func() bool {
		left = append(append(strayFiles(d, t), strayProcesses(d)...), strayGroups(d)...)
		return len(left) == 0
	})
}

// strayFiles are those in the data and temporary directories that no daemon
// with nothing to do has.
func strayFiles(d *daemon.Daemon, t *testing.T) (stray []string) {
	for _, pattern := range []string{"tmp/*", "data/*", "data/.*", "data/sockets/*", "data/ticks/*", "data/requests/*", "data/mounts/*", "data/containers/*/sandboxes/.*"} {
		names, err := filepath.Glob(filepath.Join(d.Dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			switch strings.TrimPrefix(name, d.Data()+"/") {
			case "agent9.db", "master.key", "sockets", "ticks", "mounts", "requests", "containers":
			default:
				stray = append(stray, name)
			}
		}
	}
	return stray
}

// strayProcesses are those that the daemon, or one before it, has started.
// They have its directory in their environment, or on their command line.
func strayProcesses(d *daemon.Daemon) (stray []string) {
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range all {
		if pid := filepath.Base(dir); pid == strconv.Itoa(d.Cmd.Process.Pid) || pid == strconv.Itoa(os.Getpid()) {
			continue
		}
		for _, file := range []string{"environ", "cmdline"} {
			b, err := os.ReadFile(dir + "/" + file)
			if err == nil && strings.Contains(string(b), d.Dir) {
				line, _ := os.ReadFile(dir + "/cmdline")
				stray = append(stray, dir+" "+strings.ReplaceAll(string(line), "\x00", " "))
				break
			}
		}
	}
	return stray
}
