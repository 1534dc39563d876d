package work

import (
	"encoding/json"
	"strings"

	"agent9/fsys"
	"agent9/store"
)

// Elsewhere is in the place of the id of a token when a record comes from
// elsewhere: no token has it, so that what came with one and waits does not
// begin. Nothing stays nothing.
func Elsewhere(token string) string {
	if token == "" {
		return ""
	}
	return "-"
}

// Arrive returns what becomes of a record that comes from elsewhere, if its key
// is below prefix: its token, which is none here, is [Elsewhere].
func Arrive(p store.Pair, prefix string) ([]store.Pair, error) {
	if !strings.HasPrefix(p.Key, prefix) {
		return []store.Pair{p}, nil
	}
	var r map[string]json.RawMessage
	if err := json.Unmarshal(p.Value, &r); err != nil {
		return nil, fsys.Wrap(fsys.Invalid, "the record "+p.Key, err)
	}
	if _, ok := r["token"]; ok {
		r["token"] = json.RawMessage(`"-"`)
		p.Value = fsys.Line(r)
	}
	return []store.Pair{p}, nil
}
