package mcp

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"agent9/fsys"
	"agent9/fsys/share"
)

// maxEntries is how many entries of a directory come at once.
const maxEntries = 1000

type listArgs struct {
	at
	After string `json:"after,omitempty" jsonschema:"list only what comes after this entry"`
}

type entry struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
	Size int64  `json:"size"`
}

type listing struct {
	Path    string  `json:"path"`
	Entries []entry `json:"entries"`
	Next    string  `json:"next,omitempty" jsonschema:"there is more: list again with this as after"`
}

func (l listing) shown() []sdk.Content {
	var b strings.Builder
	for _, e := range l.Entries {
		name := e.Name
		if strings.ContainsFunc(name, unicode.IsControl) { // each entry has a line of its own
			name = strconv.Quote(name)
		}
		if e.Kind == fsys.Directory.String() {
			name += "/"
		}
		fmt.Fprintf(&b, "%s\t%s\t%d\n", name, e.Kind, e.Size)
	}
	if l.Next != "" {
		fmt.Fprintf(&b, "There is more: list again with after %q.\n", l.Next)
	}
	if len(l.Entries) == 0 {
		b.WriteString("Nothing is here.\n")
	}
	return []sdk.Content{text(b.String())}
}

func (t *tree) ls(ctx context.Context, in listArgs) (listing, error) {
	l := listing{Path: clean(in.Path), Entries: []entry{}}
	node, info, err := t.look(ctx, in.Path)
	if err != nil {
		return l, err
	}
	if info.Kind != fsys.Directory {
		l.Entries = append(l.Entries, entry{l.Path[strings.LastIndexByte(l.Path, '/')+1:], info.Kind.String(), info.Size})
		return l, nil
	}
	all, err := fsys.List(ctx, node)
	if err != nil {
		return l, err
	}
	if err := t.part.Wait(ctx, share.Data, share.List(all)); err != nil {
		return l, err
	}
	all, err = following(all, in.After)
	for i, e := range all {
		if i == maxEntries {
			l.Next = all[i-1].Name
			break
		}
		info, err := e.Stat(ctx)
		switch {
		case err != nil && fsys.CodeOf(err) == fsys.NotExist: // has just gone
		case err != nil:
			return l, err
		default:
			l.Entries = append(l.Entries, entry{e.Name, info.Kind.String(), info.Size})
		}
	}
	return l, err
}

// following returns the entries behind the one called after.
func following(all []fsys.Entry, after string) ([]fsys.Entry, error) {
	if after == "" {
		return all, nil
	}
	for i, e := range all {
		if e.Name == after {
			return all[i+1:], nil
		}
	}
	return nil, fsys.E(fsys.NotExist, "entry "+after+" no longer exists; list from the beginning")
}
