package containers

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"agent9/fsys"
	"agent9/services/internal/work"
	"agent9/store"
)

// Arrive returns what becomes of a record that comes from elsewhere, in a
// bundle: what it says of sandboxes, which are another agent's or another
// machine's, is not taken over, and neither are indexes that can lie. What can
// not be a record of this service is Invalid.
func Arrive(p store.Pair) ([]store.Pair, error) {
	prefix, name, _ := strings.Cut(p.Key, "/")
	switch prefix + "/" {
	case trashPref, work.OpenPrefix, work.ListPrefix: // the last two are made of the records
		return nil, nil
	case workPrefix:
		return arriveWorkspace(p, name)
	case work.RecPrefix:
		return arriveSession(p, name)
	}
	return []store.Pair{p}, nil
}

func arriveSession(p store.Pair, number string) ([]store.Pair, error) {
	var r record
	if err := json.Unmarshal(p.Value, &r); err != nil {
		return nil, fsys.Wrap(fsys.Invalid, "the session "+p.Key, err)
	}
	switch {
	case r.Number <= 0 || number != work.Padded(r.Number):
		return nil, fsys.E(fsys.Invalid, fmt.Sprintf("the session %q has the number %d", p.Key, r.Number))
	case !slices.Contains(states, r.State):
		return nil, fsys.E(fsys.Invalid, fmt.Sprintf("the session %d is in no state that there is: %q", r.Number, r.State))
	case !r.State.ended() && len(r.Holds) == 0:
		return nil, fsys.E(fsys.Invalid, fmt.Sprintf("the session %d has not ended, and no money is held for it", r.Number))
	case r.Workspace != "" && checkWorkspace(r.Workspace) != nil:
		return nil, fsys.E(fsys.Invalid, fmt.Sprintf("the session %d has a workspace that cannot be called %q", r.Number, r.Workspace))
	}
	if r.Sandbox != "" || r.Token != "" {
		r.Sandbox, r.Token = "", work.Elsewhere(r.Token)
		p.Value = fsys.Line(r)
	}
	pairs := []store.Pair{p}
	if !r.State.ended() {
		pairs = append(pairs, store.Pair{Key: work.OpenKey(r.Number)})
	}
	if !r.Removing {
		pairs = append(pairs, store.Pair{Key: work.ListKey(r.Number)})
	}
	return pairs, nil
}

func arriveWorkspace(p store.Pair, key string) ([]store.Pair, error) {
	var ws workspace
	if err := json.Unmarshal(p.Value, &ws); err != nil {
		return nil, fsys.Wrap(fsys.Invalid, "the workspace "+p.Key, err)
	}
	if key != ws.Provider+"/"+ws.Name || fsys.CheckName(ws.Provider) != nil || checkWorkspace(ws.Name) != nil {
		return nil, fsys.E(fsys.Invalid, fmt.Sprintf("a workspace cannot be called %q", key))
	}
	if ws.Sandbox != "" {
		ws.Sandbox = ""
		p.Value = fsys.Line(ws)
	}
	return []store.Pair{p}, nil
}
