package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"agent9/cmd/internal/addr"
	"agent9/fsys"
	"agent9/fsys/ninep"
)

const usage = `a9 speaks to the agent that this sandbox works for.

   a9 ls [PATH...]           names, one per line
   a9 cat PATH...            contents; of a stream, as they come
   a9 read PATH              the same, of one file
   a9 write PATH [WORD...]   writes the words, or else its input
   a9 call PATH [WORD...]    writes, then prints the reply
   a9 rm PATH...             removes
   a9 mkdir PATH...          makes directories
   a9 status                 the agent's status
   a9 help                   this

Paths begin at the agent's root, which is at the address in AGENT9_ADDR.

   a9 cat inbox/next
   echo 'why is the sky blue?' | a9 call compute/new
`

// A usageError is a command that was not understood.
type usageError string

func (e usageError) Error() string { return string(e) }

func usagef(format string, args ...any) error { return usageError(fmt.Sprintf(format, args...)) }

// run performs a command and returns the exit status.
func run(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
	err := perform(ctx, args, in, out)
	switch {
	case err == nil:
		return 0
	case ctx.Err() != nil:
		return 130
	}
	fmt.Fprintf(errOut, "a9: %s\n", strings.Join(strings.Fields(words(err)), " "))
	if errors.As(err, new(usageError)) {
		return 2
	}
	return 1
}

// words says err for a person.
func words(err error) string {
	var p *pathError
	var code fsys.Code
	switch {
	case errors.As(err, &p):
		return p.path + ": " + words(p.err)
	case fsys.ReasonOf(err) != "":
		return fsys.ReasonOf(err)
	case errors.As(err, &code):
		return code.Text()
	}
	return err.Error()
}

// A pathError names the file that err is about.
type pathError struct {
	path string
	err  error
}

func (e *pathError) Error() string { return e.path + ": " + e.err.Error() }
func (e *pathError) Unwrap() error { return e.err }

// A command is one of a9's.
type command struct {
	least, most int // arguments; most -1: any number
	do          func(s *session, args []string) error
}

var commands = map[string]command{
	"ls":     {0, -1, (*session).ls},
	"cat":    {1, -1, (*session).cat},
	"read":   {1, 1, (*session).cat},
	"write":  {1, -1, (*session).write},
	"call":   {1, -1, (*session).call},
	"rm":     {1, -1, (*session).rm},
	"mkdir":  {1, -1, (*session).mkdir},
	"status": {0, 0, func(s *session, _ []string) error { return s.cat([]string{"status"}) }},
}

func perform(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	if len(args) == 0 || args[0] == "help" || args[0] == "-h" || args[0] == "--help" {
		_, err := io.WriteString(out, usage)
		return err
	}
	c, ok := commands[args[0]]
	n := len(args) - 1
	switch {
	case !ok:
		return usagef("there is no command %q; see a9 help", args[0])
	case n < c.least:
		return usagef("%s: PATH is missing; see a9 help", args[0])
	case c.most >= 0 && n > c.most:
		return usagef("%s: unexpected argument %q; see a9 help", args[0], args[c.most+1])
	}
	s, err := dial(ctx, in, out)
	if err != nil {
		return err
	}
	defer s.client.Close()
	return c.do(s, args[1:])
}

// A session is a connection to the agent.
type session struct {
	ctx    context.Context
	client *ninep.Client
	root   *ninep.Remote
	in     io.Reader
	out    io.Writer
}

func dial(ctx context.Context, in io.Reader, out io.Writer) (*session, error) {
	where := os.Getenv("AGENT9_ADDR")
	if where == "" {
		return nil, fsys.E(fsys.Unavailable, "AGENT9_ADDR is not set: this is no sandbox of an agent's")
	}
	network, address, err := addr.Parse(where)
	if err != nil {
		return nil, err
	}
	client, err := ninep.Dial(ctx, network, address, ninep.DialVersion("9P2000"))
	if err != nil {
		return nil, err
	}
	root, err := client.Attach(ctx, "", "?errors=full&list=all")
	if err != nil {
		client.Close()
		return nil, err
	}
	return &session{ctx: ctx, client: client, root: root, in: in, out: out}, nil
}
