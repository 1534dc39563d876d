//go:build unix

package host_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"agent9/conformance"
	"agent9/fsys"
	"agent9/providers/sandboxes"
	"agent9/providers/sandboxes/folder/foldertest"
	"agent9/providers/sandboxes/host"
)

var driver = foldertest.Driver{New: func(dir, helper string) (sandboxes.Provider, error) {
	return host.New(host.Config{Dir: dir, Helper: helper})
}}

func TestMain(m *testing.M) { driver.Main(m) }

func provider(t *testing.T) sandboxes.Provider {
	t.Helper()
	p, err := driver.New(t.TempDir(), foldertest.Helper())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestContainers(t *testing.T) {
	dir := t.TempDir()
	again := func(t *testing.T) sandboxes.Provider {
		p, err := driver.New(dir, foldertest.Helper())
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	conformance.TestContainers(t, conformance.Containers{
		Provider: again(t),
		Missing:  "nosuch",
		Again:    again,
		Crash:    func(t *testing.T, id string) { foldertest.EndRun(t, dir, id) },
		Left:     func() error { return foldertest.Empty(dir) },
	})
}

func TestCrash(t *testing.T) { driver.Crash(t, t.TempDir()) }

// TestNotAsked proves that commands have nothing of the daemon's environment
// that was not meant for them.
func TestNotAsked(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "secret")
	box := foldertest.Start(t, provider(t), sandboxes.Spec{})
	if got, _ := foldertest.Sh(t, box, "echo $OPENAI_API_KEY; env"); strings.Contains(got, "secret") {
		t.Error(got)
	}
	// Three, and the one of the directory.
	if got, _ := foldertest.Sh(t, box, "ls /dev/fd | grep -c ."); got != "4" {
		t.Errorf("%s files", got)
	}
}

// TestFilesStayInside proves that files/ does not lead out of the workspace.
func TestFilesStayInside(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	box := foldertest.Start(t, provider(t), sandboxes.Spec{})
	foldertest.Sh(t, box, "ln -s "+outside+" link; ln -s / root; echo inside >file; ln -s file good")
	files, err := box.Files(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"link", "root" + outside} {
		if p, err := fsys.ReadFile(t.Context(), files, name); err == nil {
			t.Errorf("%s: %q", name, p)
		}
	}
	if p, err := fsys.ReadFile(t.Context(), files, "good"); string(p) != "inside\n" {
		t.Errorf("%q, %v", p, err)
	}
}

func TestSkills(t *testing.T) {
	box := foldertest.Start(t, provider(t), sandboxes.Spec{Skills: []sandboxes.File{{Name: "a/b.md", Data: []byte("know how")}}})
	if got, _ := foldertest.Sh(t, box, "cat skills/a/b.md; rm -rf skills; ln -s / skills"); got != "know how" {
		t.Errorf("%q", got)
	}
	if err := box.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := box.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, _ := foldertest.Sh(t, box, "cat skills/a/b.md"); got != "know how" {
		t.Errorf("%q", got)
	}
}

// TestNothingGoesOn proves that a timeout, and the end of the sandbox, end what
// has left its session too.
func TestNothingGoesOn(t *testing.T) {
	box := foldertest.Start(t, provider(t), sandboxes.Spec{})
	left := foldertest.Left{Name: box.ID()}
	exit, err := box.Exec(t.Context(), sandboxes.Command{Argv: []string{"/bin/sh", "-c", left.Script()}, Timeout: time.Second}, sandboxes.Streams{})
	if err != nil || exit.Code != 124 {
		t.Errorf("%+v, %v", exit, err)
	}
	left.Gone(t)
	foldertest.Sh(t, box, left.Background())
	left.Started(t)
	if err := box.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	left.Gone(t)
}

func TestManyAtOnce(t *testing.T) {
	dir := t.TempDir()
	p, err := driver.New(dir, foldertest.Helper())
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { foldertest.Once(t, p) })
	}
	all.Wait()
	if err := foldertest.Empty(dir); err != nil {
		t.Errorf("left behind: %v", err)
	}
}

func TestRefusals(t *testing.T) {
	if _, err := provider(t).Create(t.Context(), sandboxes.Spec{Image: "debian"}, func(string) {}); fsys.CodeOf(err) != fsys.NotExist {
		t.Error(err)
	}
	p, err := driver.New(t.TempDir(), "/no/a9")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Create(t.Context(), sandboxes.Spec{}, func(string) {}); fsys.CodeOf(err) != fsys.Unavailable {
		t.Error(err)
	}
}
