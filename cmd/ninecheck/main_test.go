package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"strings"
	"testing"

	"agent9/conformance/ninecheck"
	"agent9/fsys"
	"agent9/fsys/ninep"
)

// A server that keeps to the protocol passes, and JSON tells of each check.
func TestPasses(t *testing.T) {
	address := serve(t)
	code, out, errs := command(t, "--dialect", "9P2000.L", "--timeout", "20s", address, "anything")
	if code != clean || errs != "" || !strings.Contains(out, " 0 failed") {
		t.Errorf("exit %d: %s\n%s", code, errs, out)
	}
	code, out, _ = command(t, "--json", "--only", "walk/*", "--timeout", "20s", address)
	var results []ninecheck.Result
	if err := json.Unmarshal([]byte(out), &results); err != nil || code != clean || len(results) == 0 {
		t.Fatalf("exit %d, %d results, %v", code, len(results), err)
	}
	for _, r := range results {
		if !strings.HasPrefix(r.Check, "walk/") || r.Says == "" || r.Verdict == ninecheck.Fail {
			t.Errorf("%+v", r)
		}
	}
}

// serve serves a small tree and returns its address.
func serve(t *testing.T) string {
	root := fsys.NewTable(fsys.Entry{Name: "hello", Node: fsys.Const("hello, world\n")})
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
		s.Shutdown(context.Background())
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return "tcp:" + l.Addr().String()
}

func command(t *testing.T, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = run(t.Context(), args, &out, &errs)
	return code, out.String(), errs.String()
}

func TestCommandLine(t *testing.T) {
	for _, args := range [][]string{
		nil, {"nonsense"}, {"unix:/nowhere/sock"}, {"--dialect", "9P1", "unix:/nowhere/sock"}, {"--what"}, {"tcp:h:1", "a", "b"},
	} {
		if code, _, errs := command(t, args...); code != trouble || errs == "" {
			t.Errorf("%q: exit %d, %q", args, code, errs)
		}
	}
	if code, out, _ := command(t, "--list"); code != clean || !strings.Contains(out, "flush/blocked\n") {
		t.Errorf("--list: exit %d\n%s", code, out)
	}
}

// A server that says nothing is found out, with the frames that show it.
func TestFindings(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() // ends the loop
	go func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			context.AfterFunc(t.Context(), func() { nc.Close() })
		}
	}()
	code, out, _ := command(t, "tcp:"+l.Addr().String(), "--dialect", "9P2000", "--timeout", "50ms")
	for _, want := range []string{"fail version/answered", "no answer to Tversion", "-> Tversion tag NOTAG msize 8192", "13000000 64ffff00"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	if code != found {
		t.Errorf("exit %d", code)
	}
}
