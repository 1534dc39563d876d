package conformance_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// floors lists what each part of the module may import from it; a part may
// always import itself. The longest part that a package is in decides.
var floors = map[string]string{
	"fsys":                "",
	"fsys/share":          "fsys",
	"fsys/locks":          "fsys",
	"fsys/ninep":          "fsys fsys/locks fsys/share",
	"fsys/export":         "fsys fsys/locks fsys/share",
	"gateway":             "fsys fsys/share fsys/export/web",
	"store":               "fsys",
	"namespace/budget":    "fsys store store/check store/due",
	"namespace":           "fsys namespace/budget",
	"providers":           "fsys fsys/ninep namespace/budget",
	"services":            "fsys namespace/budget store store/check store/due store/files store/stage providers/models providers/sandboxes providers/tools providers/programs providers/scrub providers/nip44 services/internal/work services/transports",
	"services/internal":   "fsys namespace/budget store store/check",
	"services/transports": "fsys store",
	"services/agent":      "fsys store store/check store/files namespace namespace/budget services providers/models providers/sandboxes providers/tools providers/programs",
	"services/host":       "fsys store store/check store/files namespace namespace/budget services providers/models providers/sandboxes providers/tools providers/programs",
	"conformance":         "*",
	"cmd":                 "*",
}

// open marks the parts below which every package may be imported, where they
// are named in floors.
var open = []string{"services"}

func TestImports(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}}{{range .Imports}} {{.}}{{end}}`, "agent9/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		pkg := strings.TrimPrefix(f[0], "agent9/")
		part := ""
		for p := range floors {
			if within(pkg, p) && len(p) > len(part) {
				part = p
			}
		}
		if part == "" {
			t.Errorf("%s is in no part of the house", pkg)
			continue
		}
		seen++
		for _, imp := range f[1:] {
			imp, ours := strings.CutPrefix(imp, "agent9/")
			if ours && !mayImport(pkg, part, imp) {
				t.Errorf("%s may not import %s", pkg, imp)
			}
		}
	}
	if seen < 5 {
		t.Fatalf("looked at %d packages only", seen)
	}
}

func mayImport(pkg, part, imp string) bool {
	may := strings.Fields(floors[part])
	switch {
	case slices.Contains(may, "*"), slices.Contains(may, imp):
		return true
	case part == "services":
		return imp == pkg // never another service
	case within(imp, part):
		return true
	}
	return slices.ContainsFunc(open, func(o string) bool { return slices.Contains(may, o) && within(imp, o) })
}

func within(pkg, part string) bool { return pkg == part || strings.HasPrefix(pkg, part+"/") }
