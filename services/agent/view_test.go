package agent

import (
	"strings"
	"testing"

	"agent9/fsys"
)

// No service has a file at the path of a mount below it: what a gate is put
// before cannot be reached, or changed, without it.
func TestNoServiceHasAFileWhereAnotherIsMounted(t *testing.T) {
	ctx, a := t.Context(), newAgent(t, parts())
	mounted := map[string]fsys.Node{}
	for i, p := range a.table {
		for j, m := range p.mounts {
			mounted[m.path] = a.opened[i].roots[j]
		}
	}
	for upper, root := range mounted {
		for lower := range mounted {
			rest, below := strings.CutPrefix(lower, strings.TrimSuffix(upper, "/")+"/")
			if !below || root == nil || lower == upper {
				continue
			}
			if _, err := fsys.WalkPath(ctx, root, rest); fsys.CodeOf(err) != fsys.NotExist || err == nil {
				t.Errorf("the service at %s has %s too (%v); let it be a root of its own", upper, rest, err)
			}
		}
	}
}
