package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestCompletionOfNames(t *testing.T) {
	c := realDaemon(t)
	c.ok("", "create", "alice", "albert", "bob")
	c.ok("", "config", "alice", "inbox.limit", "7")
	c.ok("", "goals", "alice", "2030/today", "x")
	c.says(nil, "budget", "alice", "--approval", "100microusd")
	c.ok("agents/alice/compute/jobs/1\n", "ask", "alice", "-d", "--max-cost", "500microusd", "may I?")
	for _, row := range []struct {
		word, want string
		args       []string
	}{
		{"al", "alice\nalbert\n", []string{"stop", "bob"}},
		{"", "1\n", []string{"approve", "alice"}},
		{"", "2030/\n", []string{"goals", "alice"}},
		{"2030/t", "2030/today\n", []string{"goals", "alice"}},
		{"in", "inbox\ninbox.limit\n", []string{"config", "alice"}},
		{"", "", []string{"config", "alice", "inbox"}},
		{"al", "alice:\nalbert:\n", []string{"cp"}},
		{"alice:goals/2", "alice:goals/2030/\n", []string{"cp", "-r"}},
		{":agents/b", ":agents/bob/\n", []string{"cp", "x"}},
		{"--per", "--per-tick\n--per-day\n", []string{"budget", "alice"}},
	} {
		t.Setenv(wordVariable, row.word)
		got := strings.Fields(c.run(append(row.args, completionFlag)...).out)
		want := strings.Fields(row.want)
		slices.Sort(got)
		if slices.Sort(want); !slices.Equal(got, want) {
			t.Errorf("completion of %q after %q: %q, want %q", row.word, row.args, got, want)
		}
	}
}

// Bash itself completes, also words with colons, which end words for it.
func TestCompletionInBash(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash here")
	}
	c := realDaemon(t)
	c.ok("", "create", "alice")
	dir := t.TempDir()
	if err := os.Symlink(os.Args[0], filepath.Join(dir, "agentctl")); err != nil {
		t.Skip("no links here: ", err)
	}
	for line, want := range map[string]string{
		"agentctl sta":               "start |status ",
		"agentctl info al":           "alice ",
		"agentctl cp al":             "alice:",
		"agentctl cp -r alice:goa":   "goals/",
		"agentctl cat agents/ali":    "agents/alice/",
		"agentctl info --js":         "--json ",
		"agentctl cp x alice:inbox/": "inbox/ctl |inbox/head |inbox/new |inbox/next |inbox/taken/",
	} {
		cmd := exec.Command(bash, "--norc", "-c", `source <(agentctl completion bash); COMP_LINE=$1 COMP_POINT=${#1}; _agentctl
			printf '%s\n' "${COMPREPLY[@]}"`, "bash", line)
		cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), asProgram+"=1", "AGENT9_ADDR="+c.addr, "AGENT9_TOKEN=")
		out, err := cmd.CombinedOutput()
		got := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
		slices.Sort(got)
		if strings.Join(got, "|") != want || err != nil {
			t.Errorf("%q is completed with %q, %v; want %q", line, got, err, want)
		}
	}
}
