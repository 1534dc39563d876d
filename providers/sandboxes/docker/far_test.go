//go:build unix

package docker_test

import (
	"strings"
	"testing"

	"agent9/fsys"
	"agent9/providers/sandboxes"
)

// TestTLS uses the engine as one that is far away: by TCP and TLS, as
// DOCKER_HOST and its like say.
func TestTLS(t *testing.T) {
	e := shared.Get(t)
	if e.TCP == "" {
		t.Skip("this engine does not listen with TLS for tests")
	}
	b := on(t, e)
	t.Setenv("DOCKER_HOST", e.TCP)
	b.config.Host = ""
	defer func() { b.config.Host = e.Host }() // for who cleans up
	if _, err := b.another().Info(t.Context()); !strings.Contains(fsys.ReasonOf(err), "HTTPS") {
		t.Errorf("without TLS: %v", err)
	}
	t.Setenv("DOCKER_TLS_VERIFY", "1")
	t.Setenv("DOCKER_CERT_PATH", e.Certs)
	b.Provider = b.another()
	box := b.box(sandboxes.Spec{Skills: []sandboxes.File{{Name: "s", Data: []byte("far")}}})
	if out, _ := b.sh(box, "cat skills/s"); out != "far" {
		t.Errorf("a command: %q", out)
	}
	if err := box.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}
