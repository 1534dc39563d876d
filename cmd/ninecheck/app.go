package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/user"
	"time"

	"agent9/cmd/internal/addr"
	"agent9/conformance/ninecheck"
)

// Exit statuses.
const (
	clean   = 0
	found   = 1
	trouble = 2
)

const usage = `usage: ninecheck [flags] ADDR [ANAME]

Asks the 9P server at ADDR (unix:PATH, tcp:HOST:PORT), attached with ANAME, whether it
keeps to the protocol, and shows the frames of what it finds. It changes nothing
without --write. The exit status is 0 if nothing was found, 1 if something was, and
2 if nothing could be checked.

`

// settings are what the command line says.
type settings struct {
	ninecheck.Options
	dialect string
	json    bool
	all     bool
	list    bool
	uid     uint
	args    []string
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	s, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return clean
	case err != nil:
		fmt.Fprintln(stderr, "ninecheck:", err)
		return trouble
	case s.list:
		for _, c := range ninecheck.Checks() {
			fmt.Fprintf(stdout, "%s\n    %s\n", c.Name, c.Says)
		}
		return clean
	}
	if !s.json {
		s.Each = func(r ninecheck.Result) {
			if s.all || r.Verdict == ninecheck.Fail {
				r.Print(stdout)
			}
		}
	}
	results, err := ninecheck.Run(ctx, s.Options)
	if s.json && len(results) > 0 {
		e := json.NewEncoder(stdout)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false)
		if err := e.Encode(results); err != nil {
			fmt.Fprintln(stderr, "ninecheck:", err)
			return trouble
		}
	}
	if err != nil {
		fmt.Fprintln(stderr, "ninecheck:", err)
		return trouble
	}
	failed := ninecheck.Count(results, ninecheck.Fail)
	if !s.json {
		fmt.Fprintf(stdout, "%d passed, %d failed, %d skipped\n",
			ninecheck.Count(results, ninecheck.Pass), failed, ninecheck.Count(results, ninecheck.Skip))
	}
	switch {
	case failed > 0:
		return found
	case ninecheck.Count(results, ninecheck.Pass) == 0:
		fmt.Fprintln(stderr, "ninecheck: nothing was checked")
		return trouble
	}
	return clean
}

func parse(args []string, stderr io.Writer) (*settings, error) {
	var s settings
	f := flag.NewFlagSet("ninecheck", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.Usage = func() {
		fmt.Fprint(stderr, usage)
		f.PrintDefaults()
	}
	f.StringVar(&s.dialect, "dialect", "", "9P2000 or 9P2000.L; default both")
	f.StringVar(&s.Only, "only", "", "the checks that match, such as 'walk/*'")
	f.StringVar(&s.Write, "write", "", "a `directory` below the attach to make files in, and remove them")
	f.StringVar(&s.Stream, "stream", "", "a `file` below the attach whose read (or open) blocks")
	f.BoolVar(&s.Hostile, "hostile", false, "also send what no client may send")
	f.DurationVar(&s.Limit, "timeout", 2*time.Second, "how long an answer may take")
	f.StringVar(&s.Uname, "uname", userName(), "the user's name in Tattach")
	f.UintVar(&s.uid, "uid", uint(max(os.Getuid(), 0)), "the user's number in a Tattach of 9P2000.L")
	f.BoolVar(&s.json, "json", false, "print every result as JSON")
	f.BoolVar(&s.all, "all", false, "also print what passed and what was skipped")
	f.BoolVar(&s.list, "list", false, "print the checks and what they go by, and ask no server")
	for rest := args; ; { // flags may follow the address
		if err := f.Parse(rest); err != nil {
			return nil, err
		}
		if f.NArg() == 0 {
			break
		}
		s.args, rest = append(s.args, f.Arg(0)), f.Args()[1:]
	}
	return &s, s.complete()
}

// complete checks what was given.
func (s *settings) complete() error {
	if s.list {
		return nil
	}
	if len(s.args) < 1 || len(s.args) > 2 {
		return errors.New("give an address, and perhaps an aname; ninecheck -h says more")
	}
	network, address, err := addr.Parse(s.args[0])
	if err != nil {
		return err
	}
	if len(s.args) == 2 {
		s.Aname = s.args[1]
	}
	if s.dialect != "" {
		s.Dialects = []string{s.dialect}
	}
	s.UID = uint32(s.uid)
	s.Dial = func(ctx context.Context) (net.Conn, error) {
		d := net.Dialer{Timeout: s.Limit}
		return d.DialContext(ctx, network, address)
	}
	return nil
}

func userName() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "none"
}
