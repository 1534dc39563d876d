package daemon

import (
	"errors"
	"os/exec"
	"strings"
)

// Offline runs agentd on the data of a daemon that need not run, and returns
// its exit status and what it printed.
func (d *Daemon) Offline(env []string, args ...string) (status int, out string) {
	d.T.Helper()
	cmd := Agentd(d.T, args...)
	cmd.Env = append(cmd.Env, env...)
	b, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		d.T.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(b)
}

func (d *Daemon) Clean(dir string) {
	d.T.Helper()
	if status, out := d.Offline(nil, "fsck", dir); status != 0 || !strings.Contains(out, "nothing is wrong") {
		d.T.Fatalf("agentd fsck ended with status %d and said:\n%s", status, out)
	}
}
