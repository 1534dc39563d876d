package main

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"agent9/fsys"
	"agent9/fsys/ninep"
)

// serve serves an agent's tree at the address that AGENT9_ADDR then has.
func serve(t *testing.T, root fsys.Node) {
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &ninep.Server{Attach: func(context.Context, ninep.Peer, string, string) (ninep.Grant, error) {
		return ninep.Grant{Root: root}, nil
	}}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	t.Cleanup(func() {
		if err := server.Shutdown(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
		<-done
	})
	t.Setenv("AGENT9_ADDR", "unix:"+socket)
}

func TestCommands(t *testing.T) {
	var stored string
	file := &fsys.Doc{
		Load: func(context.Context) ([]byte, error) { return []byte(stored), nil },
		Save: func(_ context.Context, doc []byte) error { stored = string(doc); return nil },
	}
	serve(t, fsys.NewTable(
		fsys.Entry{Name: "status", Node: fsys.Const("idle\n")},
		fsys.Entry{Name: "goal", Node: file},
		fsys.Entry{Name: "inbox", Node: fsys.NewTable(fsys.Entry{Name: "next", Node: fsys.Const("hello\n")})},
		fsys.Entry{Name: "echo", Node: &fsys.Call{Do: func(_ context.Context, req []byte) ([]byte, error) {
			if string(req) == "no" {
				return nil, fsys.E(fsys.Exhausted, "there is\nno money")
			}
			return append(req, '\n'), nil
		}}},
	))
	for _, c := range []struct {
		args, in       string
		code           int
		out, errPrefix string
	}{
		{"ls", "", 0, "status\ngoal\ninbox\necho\n", ""},
		{"ls inbox status", "", 0, "inbox:\nnext\nstatus\n", ""},
		{"cat status inbox/next", "", 0, "idle\nhello\n", ""},
		{"read /inbox/next", "", 0, "hello\n", ""},
		{"status", "", 0, "idle\n", ""},
		{"call echo two words", "", 0, "two words\n", ""},
		{"call echo", "from input\n", 0, "from input\n", ""},
		{"call echo", "", 1, "", "a9: there is nothing to write"},
		{"call echo no", "", 1, "", "a9: echo: there is no money\n"},
		{"write goal", "{\"a\":\n1}", 0, "", ""},
		{"cat goal", "", 0, "{\"a\":\n1}", ""},
		{"write inbox x", "", 1, "", "a9: inbox: Is a directory\n"},
		{"cat nosuch", "", 1, "", "a9: nosuch: No such file or directory\n"},
		{"rm nosuch", "", 1, "", "a9: nosuch: No such file or directory\n"},
		{"mkdir inbox/new", "", 1, "", "a9: inbox/new: "},
		{"help", "", 0, usage, ""},
		{"fetch", "", 2, "", `a9: there is no command "fetch"`},
		{"cat", "", 2, "", "a9: cat: PATH is missing"},
		{"status x", "", 2, "", `a9: status: unexpected argument "x"`},
	} {
		var out, errOut strings.Builder
		code := run(t.Context(), strings.Fields(c.args), strings.NewReader(c.in), &out, &errOut)
		if code != c.code || out.String() != c.out || !strings.HasPrefix(errOut.String(), c.errPrefix) || c.errPrefix == "" && errOut.Len() > 0 {
			t.Errorf("a9 %s: %d, %q, %q\nwant %d, %q, %q", c.args, code, out.String(), errOut.String(), c.code, c.out, c.errPrefix)
		}
	}
}

func TestNoAgent(t *testing.T) {
	for addr, want := range map[string]string{"": "AGENT9_ADDR is not set", "nonsense": "is not an address", "unix:/no/such/socket": "no such file"} {
		t.Setenv("AGENT9_ADDR", addr)
		var out, errOut strings.Builder
		if code := run(t.Context(), []string{"ls"}, nil, &out, &errOut); code != 1 || !strings.Contains(errOut.String(), want) {
			t.Errorf("with AGENT9_ADDR=%q: %d, %q", addr, code, errOut.String())
		}
	}
}
