package conformance_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// analyze runs systemd-analyze, or skips the test where that is not there.
func analyze(t *testing.T, args ...string) (out string, err error) {
	t.Helper()
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("systemd-analyze is missing (Debian: systemd)")
	}
	b, err := exec.Command("systemd-analyze", args...).CombinedOutput()
	return string(b), err
}

// units copies the units of init to a directory in which the program that they start is
// there.
func units(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	program := filepath.Join(dir, "agentd")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"agentd.service", "agentd.socket"} {
		b, err := os.ReadFile(filepath.Join("..", "init", name))
		if err != nil {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(string(b), "/usr/local/bin/agentd", program)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestUnitsAreValid(t *testing.T) {
	dir := units(t)
	out, err := analyze(t, "verify", "--man=no", "--recursive-errors=no", filepath.Join(dir, "agentd.service"), filepath.Join(dir, "agentd.socket"))
	if err != nil || strings.Contains(out, "agentd") {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}

// worst is the exposure, in tenths, that systemd-analyze may find.
const worst = 15

func TestUnitIsHardened(t *testing.T) {
	dir := units(t)
	out, err := analyze(t, "security", "--offline=true", "--threshold="+strconv.Itoa(worst), "--no-pager", filepath.Join(dir, "agentd.service"))
	t.Log(out[strings.LastIndexByte(strings.TrimSpace(out), '\n')+1:])
	if err != nil {
		t.Errorf("systemd-analyze security: %v\n%s", err, out)
	}
}
