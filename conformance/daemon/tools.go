package daemon

import (
	"os"
	"testing"

	"agent9/fsys"
	"agent9/providers/tools/toolstest"
)

// ToolConfig is the configuration of an agent with a server of tools that is
// this test's own binary.
func ToolConfig(t *testing.T, started string) string {
	t.Helper()
	return string(fsys.Line(map[string]any{
		"tools": map[string]any{"counter": map[string]any{
			"command": []string{os.Args[0]},
			"env":     map[string]any{toolstest.Var: "yes", "AGENT9_TEST_STARTED": started, "API_KEY": map[string]string{"secret": "key"}},
		}},
		"secrets": map[string]any{"key": map[string]any{"uses": []string{"tools"}}},
	}))
}
