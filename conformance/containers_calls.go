package conformance

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"

	"agent9/fsys"
	"agent9/fsys/ninep"
	"agent9/providers/sandboxes"
)

var callRules = []boxRule{
	{"the agent's tree inside", inBox.agentTree},
	{"many callers", inBox.manyCallers},
	{"a caller that waits", inBox.patientCaller},
	{"accept is cancelled", inBox.acceptCancelled},
}

// serve serves root to programs in the sandbox, until the test ends.
func (in inBox) serve(root fsys.Node) {
	if in.box.Where().Socket == "" || in.box.Where().Helper == "" {
		in.Skip("there is no program in the sandbox to dial the agent with")
	}
	server := &ninep.Server{Attach: func(context.Context, ninep.Peer, string, string) (ninep.Grant, error) {
		return ninep.Grant{Root: root}, nil
	}}
	ctx, cancel := context.WithCancel(in.Context())
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := in.box.Accept(ctx)
			if err != nil {
				return
			}
			all.Go(func() { server.ServeConn(conn) })
		}
	})
	in.Cleanup(func() {
		cancel()
		ended, stop := context.WithTimeout(context.WithoutCancel(ctx), in.s.Bound)
		defer stop()
		if err := server.Shutdown(ended); err != nil {
			in.Errorf("the server does not end: %v", err)
		}
		all.Wait()
	})
}

// agentTree is what an agent's programs do in a sandbox.
func (in inBox) agentTree() {
	var kept fsys.Memory
	in.serve(fsys.NewTable(
		fsys.Entry{Name: "status", Node: fsys.Const("idle\n")},
		fsys.Entry{Name: "inbox", Node: fsys.NewTable(fsys.Entry{Name: "next", Node: fsys.Const("the build is red\n")})},
		fsys.Entry{Name: "large", Node: fsys.Const(string(everyByte()) + "\n")},
		fsys.Entry{Name: "ask", Node: &fsys.Call{Do: func(_ context.Context, req []byte) ([]byte, error) {
			if string(req) == "no" {
				return nil, fsys.E(fsys.Exhausted, "there is no money for this")
			}
			return []byte("you said " + string(req) + "\n"), nil
		}}},
		fsys.Entry{Name: "keep", Node: &fsys.Call{Do: func(_ context.Context, req []byte) ([]byte, error) {
			kept.Append(req)
			return nil, nil
		}}},
	))
	for _, c := range []struct{ script, want string }{
		{"a9 cat inbox/next", "the build is red\n"},
		{"a9 status", "idle\n"},
		{"a9 ls | sort | tr '\\n' ' '", "ask inbox keep large status "},
		{"a9 ls inbox", "next\n"},
		{"echo hello | a9 call ask", "you said hello\n"},
		{"a9 call ask two words", "you said two words\n"},
		{"echo kept | a9 write keep; echo $?", "0\n"},
		{"a9 read large | wc -c | tr -d ' '", fmt.Sprintln(len(everyByte()) + 1)},
		{"a9 call ask no 2>&1; echo $?", "a9: ask: there is no money for this\n1\n"},
		{"a9 cat nosuch 2>&1; echo $?", "a9: nosuch: No such file or directory\n1\n"},
		{"a9 nosuch >/dev/null 2>&1; echo $?", "2\n"},
		{"AGENT9_ADDR= a9 ls 2>&1 | grep -c AGENT9_ADDR", "1\n"},
	} {
		if r := in.sh(c.script); r.out != c.want {
			in.Errorf("%s\n got %q (%s)\nwant %q", c.script, r.out, r.err, c.want)
		}
	}
	got := make([]byte, 16)
	n, _ := kept.ReadAt(got, 0)
	if string(got[:n]) != "kept" {
		in.Errorf("what was written is %q", got[:n])
	}
}

func (in inBox) manyCallers() {
	in.serve(fsys.NewTable(fsys.Entry{Name: "echo", Node: &fsys.Call{Do: func(_ context.Context, req []byte) ([]byte, error) { return req, nil }}}))
	const most = 20
	r := in.sh(fmt.Sprintf(`i=0; while test $i -lt %d; do a9 call echo word$i >got.$i & i=$((i+1)); done; wait; cat got.* | grep -o word | wc -l; rm got.*`, most))
	if strings.TrimSpace(r.out) != fmt.Sprint(most) {
		in.Errorf("%s of %d were answered: %s", r.out, most, r.err)
	}
}

// patientCaller checks that a program that dials waits until it is accepted.
func (in inBox) patientCaller() {
	if in.box.Where().Socket == "" || in.box.Where().Helper == "" {
		in.Skip("there is no program in the sandbox to dial the agent with")
	}
	b, _ := in.start(shell("echo ready; a9 cat x"), sandboxes.Streams{})
	b.until(in, "ready")
	in.serve(fsys.NewTable(fsys.Entry{Name: "x", Node: fsys.Const("after all\n")}))
	b.until(in, "after all")
	b.wait(in)
}

func (in inBox) acceptCancelled() {
	ctx, cancel := context.WithCancel(in.Context())
	over := make(chan error, 1)
	var conn net.Conn
	go func() {
		var err error
		conn, err = in.box.Accept(ctx)
		over <- err
	}()
	cancel()
	if err := <-over; !errors.Is(err, context.Canceled) {
		in.Errorf("Accept: %v, %v", conn, err)
	}
}
