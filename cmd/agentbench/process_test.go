package main

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMain makes the test's own binary be the floor, which agentbench starts as
// itself.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == floorCommand {
		exit(floor(os.Args[2]))
	}
	os.Exit(m.Run())
}

// agentd builds the daemon.
func agentd(t *testing.T) string {
	bin, err := goBuild(t.Context(), t.TempDir(), "agent9/cmd/agentd")
	require.NoError(t, err)
	return bin
}

// shortDir is a directory whose path is short enough for sockets.
func shortDir(t *testing.T) string {
	dir, err := os.MkdirTemp("", "ab")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func TestAServerThatEndsSaysWhy(t *testing.T) {
	dir := shortDir(t)
	_, err := launch(t.Context(), exec.Command("sh", "-c", "echo no such luck; exit 3"), dir+"/log", listens("unix", dir+"/s"))
	require.ErrorContains(t, err, "no such luck")
	require.ErrorContains(t, err, "exit status 3")
}
