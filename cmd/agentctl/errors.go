package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"agent9/cmd/internal/plain"
	"agent9/fsys"
)

// A usageError is a command that was not understood.
type usageError string

func (e usageError) Error() string { return string(e) }

func usagef(format string, args ...any) error { return usageError(fmt.Sprintf(format, args...)) }

// At names the file that err is about; it returns nil if err is.
func at(path string, err error) error {
	if err == nil {
		return nil
	}
	return &pathError{path, err}
}

type pathError struct {
	path string
	err  error
}

func (e *pathError) Error() string { return e.path + ": " + words(e.err) }
func (e *pathError) Unwrap() error { return e.err }

// words says err for a person: its reason, or what its code says if that is
// all there is.
func words(err error) string {
	var e *pathError
	var d *draftError
	var u usageError
	var code fsys.Code
	switch {
	case errors.As(err, &d):
		return d.Error()
	case errors.As(err, &e):
		return e.Error()
	case errors.As(err, &u):
		return string(u)
	case fsys.ReasonOf(err) != "":
		return fsys.ReasonOf(err)
	case errors.As(err, &code):
		return code.Text()
	}
	return err.Error()
}

// takes refuses a command line with fewer than least arguments, what the
// missing one is called being said, or more than most, if that is not
// negative.
func takes(least, most int, missing string) cli.BeforeFunc {
	return func(c *cli.Context) error {
		switch n := c.NArg(); {
		case n < least:
			return usagef("%s: %s is missing; see agentctl %[1]s --help", c.Command.Name, missing)
		case most >= 0 && n > most:
			return usagef("%s: unexpected argument %q; see agentctl %[1]s --help", c.Command.Name, c.Args().Get(most))
		}
		return nil
	}
}

// errReported is a failure that was already said on standard error, or by
// what was printed.
var errReported error = reported(exitFailed)

// reported is the exit status of a failure that was already said.
type reported int

func (reported) Error() string { return "failed" }

// report says err on one line and returns the exit status.
func report(ctx context.Context, w io.Writer, err error) int {
	status := statusOf(ctx, err)
	var exit exitStatus
	var said reported
	if err == nil || ctx.Err() != nil || errors.As(err, &exit) || errors.As(err, &said) {
		return status
	}
	text := words(err)
	var u usageError
	if errors.As(err, &u) {
		text = u.Error()
	}
	notice(w, "%s", text)
	return status
}

// notice tells a person something on a line of its own.
func notice(w io.Writer, format string, args ...any) {
	fmt.Fprintf(w, "agentctl: %s\n", plain.Line(oneLine(fmt.Sprintf(format, args...))))
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// each does f for every one of names, says which failed, and fails as the
// first of them did.
func each(ctx context.Context, w io.Writer, names []string, f func(name string) error) error {
	var failed error
	for _, name := range names {
		err := f(name)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err == nil {
			continue
		}
		if status := report(ctx, w, err); failed == nil {
			failed = reported(status)
		}
	}
	return failed
}
