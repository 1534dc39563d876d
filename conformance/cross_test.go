package conformance

import (
	"os"
	"slices"
	"testing"

	"golang.org/x/tools/go/packages"
)

// TestBuildsElsewhere checks the types of each program for the systems that it
// is made for; make cross compiles them.
func TestBuildsElsewhere(t *testing.T) {
	if testing.Short() {
		t.Skip("reads all source, that of the standard library too")
	}
	programs := map[string][]string{
		"freebsd": {"./cmd/agentd", "./cmd/agentctl", "./cmd/a9"},
		"darwin":  {"./cmd/agentd", "./cmd/agentctl", "./cmd/a9"},
		"windows": {"./cmd/agentctl", "./cmd/a9"},
		"plan9":   {"./cmd/agentctl", "./cmd/a9"},
	}
	for system, patterns := range programs {
		t.Run(system, func(t *testing.T) {
			list, err := packages.Load(&packages.Config{
				Mode: packages.NeedName | packages.NeedImports | packages.NeedDeps | packages.NeedTypes | packages.NeedSyntax | packages.NeedModule | packages.NeedFiles | packages.NeedCompiledGoFiles,
				Dir:  "..",
				Env:  append(slices.Clone(os.Environ()), "GOOS="+system, "CGO_ENABLED=0"),
			}, patterns...)
			if err != nil {
				t.Fatal(err)
			}
			packages.Visit(list, nil, func(p *packages.Package) {
				if p.Module == nil || p.Module.Path != "agent9" {
					return
				}
				for _, err := range p.Errors {
					t.Error(err)
				}
			})
		})
	}
}
