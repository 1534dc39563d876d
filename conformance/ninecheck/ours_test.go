package ninecheck_test

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"agent9/conformance/ninecheck"
	"agent9/fsys"
	"agent9/fsys/ninep"
	"agent9/store"
	"agent9/store/files"
	"agent9/store/mem"
)

// patience is how long an answer may take on a slow machine.
const patience = 90 * time.Second

// quiet is short, as the servers are near.
const quiet = 30 * time.Millisecond

// serve serves a tree that has all that the checks look for, and returns how
// to dial it, and how often what is stored in it has changed.
func serve(t *testing.T) (dial func(context.Context) (net.Conn, error), changes *atomic.Int32) {
	t.Helper()
	changes = new(atomic.Int32)
	stored, err := files.New(t.Context(), mem.New(), files.Options{
		Note: func(context.Context, store.Store, files.Change) error {
			changes.Add(1)
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	log := new(fsys.Memory)
	log.Append([]byte("the first line\n"))
	root := fsys.NewTable(
		fsys.Entry{Name: "hello", Node: fsys.Const("hello, world\n")},
		fsys.Entry{Name: "many", Node: many(60)},
		fsys.Entry{Name: "stored", Node: stored.Root()},
		fsys.Entry{Name: "log", Node: fsys.NewTape(log)},
	)
	s := &ninep.Server{Attach: func(context.Context, ninep.Peer, string, string) (ninep.Grant, error) {
		return ninep.Grant{Root: root}, nil
	}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", l.Addr().String())
	}, changes
}

// many is a directory of n files.
func many(n int) fsys.Node {
	var list []fsys.Entry
	for i := range n {
		list = append(list, fsys.Entry{Name: strings.Repeat(string(rune('a'+i%26)), 1+i/26), Node: fsys.Const("x")})
	}
	return fsys.NewTable(list...)
}

// Our own server passes everything, and nothing is left out.
func TestOurs(t *testing.T) {
	t.Parallel()
	dial, changes := serve(t)
	results, err := ninecheck.Run(t.Context(), ninecheck.Options{
		Dial: dial, Uname: "glenda", Write: "stored", Stream: "log", Hostile: true, Limit: patience, Quiet: quiet,
	})
	if err != nil {
		t.Fatal(err)
	}
	if changes.Load() == 0 {
		t.Error("nothing was written")
	}
	if passed := ninecheck.Count(results, ninecheck.Pass); passed < 2*len(ninecheck.Checks())-30 {
		t.Errorf("%d checks passed", passed)
	}
	for _, r := range results {
		if r.Verdict == ninecheck.Fail || r.Verdict == ninecheck.Skip && !strings.HasPrefix(r.Reason, "only in") {
			t.Error(text(r))
		}
	}
}

func text(r ninecheck.Result) string {
	var b strings.Builder
	r.Print(&b)
	return b.String()
}

// Without Write nothing of the tree changes, whatever else is asked for.
func TestChangesNothing(t *testing.T) {
	t.Parallel()
	dial, changes := serve(t)
	_, err := ninecheck.Run(t.Context(), ninecheck.Options{Dial: dial, Stream: "log", Hostile: true, Limit: patience, Quiet: quiet})
	if err != nil || changes.Load() != 0 {
		t.Errorf("%d changes, %v", changes.Load(), err)
	}
}

// What cannot be checked is an error, not a good result.
func TestNothingToCheck(t *testing.T) {
	dial, _ := serve(t)
	for name, o := range map[string]ninecheck.Options{
		"no server":  {Dial: func(context.Context) (net.Conn, error) { return nil, net.ErrClosed }},
		"no dialect": {Dial: dial, Dialects: []string{"9P1"}},
		"no pattern": {Dial: dial, Only: "[x"},
	} {
		if results, err := ninecheck.Run(t.Context(), o); err == nil || len(results) > 0 {
			t.Errorf("%s: %d results, %v", name, len(results), err)
		}
	}
}
