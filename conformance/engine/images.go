//go:build unix

package engine

import (
	"archive/tar"
	"bytes"
	"context"
	"debug/elf"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/image"
)

// Root is the root file system of Busybox, as a tar file, to make other images
// of.
func (e *Engine) Root(t testing.TB) io.Reader {
	t.Helper()
	root, err := busybox()
	if err != nil {
		t.Skip("no image to test with: " + err.Error())
	}
	return root
}

// Busybox is an image of Debian's busybox-static and nothing else, which needs
// no registry.
func (e *Engine) Busybox(t testing.TB) string {
	t.Helper()
	const name = "agent9-test-busybox:latest"
	if _, err := e.API.ImageInspect(t.Context(), name); err == nil {
		return name
	}
	e.load(t, name, e.Root(t))
	return name
}

// Debian is an image of Debian with python3 and git, if debian-image.sh has
// made it before; it is kept in the user's cache directory.
func (e *Engine) Debian(t testing.TB) string {
	t.Helper()
	const name = "agent9-test-debian:latest"
	if _, err := e.API.ImageInspect(t.Context(), name); err == nil {
		return name
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Skip(err)
	}
	root, err := os.Open(filepath.Join(cache, "agent9", "images", "debian.tar"))
	if err != nil {
		t.Skip("no image with python3 and git (conformance/engine/debian-image.sh makes one): " + err.Error())
	}
	defer root.Close()
	e.load(t, name, root)
	return name
}

// load imports a root file system. An engine that is not the tests' own keeps
// the image for the next time.
func (e *Engine) load(t testing.TB, name string, root io.Reader) {
	t.Helper()
	said, err := e.API.ImageImport(context.WithoutCancel(t.Context()),
		image.ImportSource{Source: root, SourceName: "-"}, name, image.ImportOptions{Changes: []string{`CMD ["/bin/sh"]`, "ENV PATH=/usr/local/bin:/usr/bin:/bin"}})
	if err != nil {
		t.Fatalf("importing %s: %v", name, err)
	}
	defer said.Close()
	if _, err := io.Copy(io.Discard, said); err != nil {
		t.Fatalf("importing %s: %v", name, err)
	}
}

// busybox makes the root file system.
func busybox() (io.Reader, error) {
	path, err := exec.LookPath("busybox")
	if err != nil {
		return nil, err
	}
	program, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if f, err := elf.NewFile(bytes.NewReader(program)); err != nil {
		return nil, err
	} else if libs, _ := f.ImportedLibraries(); len(libs) > 0 {
		return nil, fmt.Errorf("%s is not static (Debian's busybox-static is)", path)
	}
	applets, err := exec.Command(path, "--list").Output()
	if err != nil {
		return nil, err
	}
	var root bytes.Buffer
	w := tar.NewWriter(&root)
	files := []tar.Header{{Name: "bin/", Mode: 0o755}, {Name: "etc/", Mode: 0o755}, {Name: "root/", Mode: 0o700}, {Name: "tmp/", Mode: 0o1777},
		{Name: "bin/busybox", Mode: 0o755, Size: int64(len(program))},
		{Name: "etc/passwd", Mode: 0o644, Size: int64(len(passwd))},
		{Name: "etc/group", Mode: 0o644, Size: int64(len(group))}}
	for name := range strings.FieldsSeq(string(applets)) {
		if name != "busybox" {
			files = append(files, tar.Header{Typeflag: tar.TypeSymlink, Name: "bin/" + name, Linkname: "busybox", Mode: 0o777})
		}
	}
	data := map[string][]byte{"bin/busybox": program, "etc/passwd": []byte(passwd), "etc/group": []byte(group)}
	for _, f := range files {
		if err := w.WriteHeader(&f); err != nil {
			return nil, err
		}
		if _, err := w.Write(data[f.Name]); err != nil {
			return nil, err
		}
	}
	return &root, w.Close()
}

const (
	passwd = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n"
	group  = "root:x:0:\nnogroup:x:65534:\n"
)
