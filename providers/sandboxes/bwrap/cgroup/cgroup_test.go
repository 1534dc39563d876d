//go:build linux

package cgroup

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestDirectories(t *testing.T) {
	mounts := `35 25 0:30 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
36 25 0:31 /docker/x /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
37 25 0:32 /other /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids
38 25 0:33 / /mnt/with\040blank rw shared:9 - cgroup2 cgroup2 rw,nsdelegate
`
	groups := "5:memory:/user\n4:cpu,cpuacct:/docker/x/y\n3:pids:/docker\n1:name=systemd:/\n0::/a.service\n"
	want := map[string]string{
		"memory": "/sys/fs/cgroup/memory/user",
		"cpu":    "/sys/fs/cgroup/cpu,cpuacct/y", "cpuacct": "/sys/fs/cgroup/cpu,cpuacct/y",
		"": "/mnt/with blank/a.service",
	}
	if got := directories(mounts, groups); !maps.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// TestVersion2 uses a directory with the files that version 2 would have.
func TestVersion2(t *testing.T) {
	own := t.TempDir()
	group := filepath.Join(own, "owner", "one")
	if err := os.MkdirAll(group, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"cgroup.controllers": "cpuset cpu io memory pids\n", "cgroup.subtree_control": "",
		// A write here does not replace what is read.
		"owner/cgroup.subtree_control": "         cpu memory pids\n",
		"owner/one/memory.max":         "", "owner/one/memory.swap.max": "", "owner/one/pids.max": "", "owner/one/cpu.max": "",
		"owner/one/cpu.stat": "usage_usec 2500\nuser_usec 1\n", "owner/one/memory.peak": "4096\n",
		"owner/one/memory.events": "low 0\noom 7\noom_kill 3\n", "owner/one/cgroup.procs": "",
	} {
		if err := os.WriteFile(filepath.Join(own, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	tree := find("38 25 0:33 / "+own+" rw - cgroup2 cgroup2 rw\n", "0::/\n", "owner")
	if got := tree.Enforces(); !slices.Equal(got, []string{"memory", "cpus", "pids"}) {
		t.Fatalf("%q", got)
	}
	g, err := tree.Make("one", Limits{Memory: 1 << 20, CPUs: 500, PIDs: 7})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"memory.max": "1048576", "memory.swap.max": "0", "pids.max": "7", "cpu.max": "50000 100000"} {
		if got, err := os.ReadFile(filepath.Join(group, name)); string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if got, want := g.Usage(), (Usage{CPU: 2500 * time.Microsecond, Memory: 4096, OOMKills: 3}); got != want {
		t.Errorf("%+v", got)
	}
	if got := g.Procs(); len(got) != 1 || got[0] != filepath.Join(group, "cgroup.procs") {
		t.Errorf("%q", got)
	}
}

// TestKernel uses what this machine has.
func TestKernel(t *testing.T) {
	tree := Find("agent9-test-" + strings.ToLower(t.Name()))
	if len(tree.Enforces()) == 0 {
		t.Skip("no control groups can be made here")
	}
	g, err := tree.Make("one", Limits{Memory: 64 << 20, CPUs: 500, PIDs: 20})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Remove()
	cmd := exec.Command("sh", append([]string{"-c", `for f; do echo 0 >"$f" || exit 1; done; sleep 1000 & echo; wait`, "sh"}, g.Procs()...)...)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	g.Kill()
	if err := cmd.Wait(); err == nil {
		t.Error("what was killed succeeded")
	}
	if u := g.Usage(); u.CPU <= 0 {
		t.Errorf("%+v", u)
	}
	g.Remove()
	for _, dir := range g.dirs() {
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s is left", dir)
		}
	}
}
