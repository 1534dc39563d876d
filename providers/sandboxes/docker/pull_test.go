//go:build unix

package docker_test

import (
	"context"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/image"

	"agent9/conformance/engine"
	"agent9/fsys"
	"agent9/providers/sandboxes"
)

func TestPull(t *testing.T) {
	t.Parallel()
	b := on(t, shared.Get(t))
	host := engine.StartRegistry(t, b.engine.Root(t)).Host
	name := host + "/box"
	var lines []string
	s, err := b.Create(t.Context(), sandboxes.Spec{Image: name, Pull: true}, func(line string) { lines = append(lines, line) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		b.engine.API.ImageRemove(context.Background(), name, image.RemoveOptions{Force: true})
	})
	if out, _ := b.sh(b.start(s.ID()), "echo pulled"); out != "pulled" {
		t.Errorf("a command: %q", out)
	}
	said := strings.Join(lines, "\n")
	for _, want := range []string{"pulling " + name, "1 of 1 layers, ", "Downloaded newer image for " + name} {
		if !strings.Contains(said, want) {
			t.Errorf("the progress lacks %q:\n%s", want, said)
		}
	}
	if len(lines) > 20 {
		t.Errorf("%d lines of progress", len(lines))
	}
	for _, missing := range []string{host + "/box:other", host + "/none"} {
		_, err := b.Create(t.Context(), sandboxes.Spec{Image: missing, Pull: true}, silent)
		if fsys.CodeOf(err) != fsys.NotExist || !strings.Contains(fsys.ReasonOf(err), "pulling "+missing) {
			t.Errorf("pulling %s: %v", missing, err)
		}
	}
}
