//go:build linux

package conformance

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"

	"agent9/fsys"
	"agent9/store/files"
	"agent9/store/mem"
)

// exportStored is an empty directory of ordinary files.
func exportStored(t *testing.T) fsys.Node {
	t.Helper()
	tree, err := files.New(t.Context(), mem.New(), files.Options{})
	must(t, err)
	return tree.Root()
}

// exportOffice is a tree with one of each kind of file.
func exportOffice(t *testing.T) fsys.Node {
	log := new(fsys.Memory)
	log.Append([]byte("one\ntwo\nthree\n"))
	tape := fsys.NewTape(log)
	tape.End()
	on := new(fsys.Memory)
	on.Append([]byte("first\n"))
	return fsys.NewTable(
		fsys.Entry{Name: "README", Node: fsys.Const("hello\nworld\n")},
		fsys.Entry{Name: "config", Node: exportDoc()},
		fsys.Entry{Name: "ctl", Node: &fsys.Ctl{
			Do: func(_ context.Context, words []string) ([]byte, error) {
				if words[0] != "go" {
					return nil, fsys.E(fsys.Invalid, "the only command is go")
				}
				return []byte("went\n"), nil
			},
			Text: func(context.Context) ([]byte, error) { return []byte("go\nstop\n"), nil },
		}},
		fsys.Entry{Name: "goals", Node: exportStored(t)},
		fsys.Entry{Name: "log", Node: tape},
		fsys.Entry{Name: "new", Node: exportEcho()},
		fsys.Entry{Name: "sub", Node: fsys.NewTable(
			fsys.Entry{Name: "deep", Node: fsys.NewTable(fsys.Entry{Name: "leaf", Node: fsys.Const("the leaf\n")})},
			fsys.Entry{Name: "new", Node: exportEcho()},
		)},
		// Not listed, as a mount lists only what is safe to be read.
		fsys.Entry{Name: "on", Node: fsys.NewTape(on)},
		fsys.Entry{Name: "start", Node: acting{fsys.Const("started\n")}},
	)
}

// acting is a file of which a read starts something.
type acting struct{ fsys.Node }

func (a acting) Stat(ctx context.Context) (fsys.Info, error) {
	info, err := a.Node.Stat(ctx)
	info.Acts = true
	return info, err
}

// exportEcho replies with the request, and refuses some.
func exportEcho() fsys.Node {
	return &fsys.Call{Do: func(_ context.Context, req []byte) ([]byte, error) {
		if bytes.Contains(req, []byte("refuse")) {
			return nil, fsys.E(fsys.Exhausted, "no money")
		}
		return fmt.Appendf(nil, "got %s\n", req), nil
	}}
}

func exportDoc() fsys.Node {
	var mu sync.Mutex
	doc := []byte("{\"a\":1}\n")
	return &fsys.Doc{
		Load: func(context.Context) ([]byte, error) {
			mu.Lock()
			defer mu.Unlock()
			return doc, nil
		},
		Save: func(_ context.Context, p []byte) error {
			if bytes.Contains(p, []byte("bad")) {
				return fsys.E(fsys.Invalid, "bad")
			}
			mu.Lock()
			defer mu.Unlock()
			doc = append(bytes.TrimSpace(bytes.Clone(p)), '\n')
			return nil
		},
	}
}
