package http

import (
	"agent9/conformance/daemon"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestHTTPManual runs the examples of docs/http.md with real curl: what a
// command prints must be what stands below it, where … is anything.
func TestHTTPManual(t *testing.T) {
	for _, program := range []string{"bash", "curl"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("no %s on this machine", program)
		}
	}
	manual, err := os.ReadFile("../../docs/http.md")
	if err != nil {
		t.Fatal(err)
	}
	d, url, operator := daemon.StartWeb(t)
	env := append(os.Environ(), "HTTP="+url, "SOCKET="+filepath.Join(d.Dir, "http"))
	ran := 0
	for _, block := range regexp.MustCompile("(?s)```console\n(.*?)```").FindAllStringSubmatch(string(manual), -1) {
		for _, example := range regexp.MustCompile(`(?m)^\$ `).Split(block[1], -1)[1:] {
			command, want, _ := strings.Cut(example, "\n")
			ctx, cancel := context.WithTimeout(t.Context(), daemon.Limit)
			cmd := exec.CommandContext(ctx, "bash", "-c", command)
			cmd.Env = env
			out, err := cmd.CombinedOutput()
			cancel()
			got := strings.ReplaceAll(string(out), "\r", "")
			pattern := strings.ReplaceAll(regexp.QuoteMeta(want), "…", "(?s:.*)")
			if err != nil || !regexp.MustCompile(`\A`+pattern+`\n?\z`).MatchString(got) && strings.TrimSuffix(want, "\n") != got {
				t.Errorf("$ %s\n got %q, %v\nwant %q", command, got, err, want)
			}
			if ran++; ran == 1 {
				env = append(env, "TOKEN="+daemon.TokenFor(t, operator, "alice"))
			}
		}
	}
	if ran < 30 {
		t.Errorf("only %d examples were found", ran)
	}
}
