package conformance

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// block is one of a manual: a file of Go, or lines that are added to one.
var block = regexp.MustCompile("(?ms)^```(go|diff) ([a-z0-9_/]+\\.go)\n(.*?)^```$")

var testName = regexp.MustCompile(`(?m)^func (Test[A-Z]\w*)\(`)

// TestRecipes follows the manual for who adds to agent9: its files and lines are
// laid over the source, everything is built, and the tests of the new packages run.
func TestRecipes(t *testing.T) {
	top, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	manual, err := os.ReadFile("../docs/extending.md")
	if err != nil {
		t.Fatal(err)
	}
	text := map[string]string{}   // by path
	tested := map[string]string{} // the tests of a package
	var changed []string
	for _, b := range block.FindAllStringSubmatch(string(manual), -1) {
		path, dir := b[2], "./"+filepath.Dir(b[2])
		if b[1] == "go" {
			text[path] = b[3]
			if strings.HasSuffix(path, "_test.go") {
				var names []string
				for _, name := range testName.FindAllStringSubmatch(b[3], -1) {
					names = append(names, name[1])
				}
				tested[dir] = "^(" + strings.Join(names, "|") + ")$"
			}
			continue
		}
		if text[path] == "" {
			was, err := os.ReadFile(filepath.Join("..", path))
			if err != nil {
				t.Fatal(err)
			}
			text[path] = string(was)
		}
		changed = append(changed, dir)
		text[path] = added(t, path, text[path], b[3])
	}
	if len(tested) == 0 {
		t.Fatal("the manual has no recipe")
	}
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	laid := t.TempDir()
	for path, content := range text {
		file := filepath.Join(laid, strings.ReplaceAll(path, "/", "-"))
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		overlay.Replace[filepath.Join(top, path)] = file
	}
	doc, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(laid, "overlay.json")
	if err := os.WriteFile(list, doc, 0o644); err != nil {
		t.Fatal(err)
	}
	run := func(dir, program string, args ...string) {
		cmd := exec.Command(program, args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s %s: %v\n%s", program, strings.Join(args, " "), err, bytes.TrimSpace(out))
		}
	}
	slices.Sort(changed)
	for _, dir := range slices.Compact(changed) {
		run(top, "go", "build", "-overlay", list, "-o", filepath.Join(laid, "built"), dir)
	}
	for dir, tests := range tested { // vet and the tests would look for the directory itself
		binary := filepath.Join(laid, "tests")
		run(top, "go", "test", "-vet=off", "-c", "-overlay", list, "-o", binary, dir)
		run(top, binary, "-test.timeout=5m", "-test.run="+tests)
	}
}

// added returns text with the lines of diff that begin with a plus sign, after
// those before them, which are in text once.
func added(t *testing.T, path, text, diff string) string {
	t.Helper()
	was, is := "", ""
	for line := range strings.Lines(diff) {
		is += line[1:]
		if line[0] != '+' {
			was += line[1:]
		}
	}
	if n := strings.Count(text, was); n != 1 {
		t.Fatalf("%s has %d times\n%s", path, n, was)
	}
	return strings.Replace(text, was, is, 1)
}
