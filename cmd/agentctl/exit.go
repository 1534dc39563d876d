package main

import (
	"context"
	"errors"

	"agent9/fsys"
)

// The exit status of every command says what kind of failure it was. Only run
// and shell, when what they ran has ended, exit as it did.
const (
	exitFailed      = 1 // for no reason below
	exitUsage       = 2 // the command line was not understood
	exitUnreachable = 15
	exitInterrupted = 130
)

// exitOf is the exit status of an error that the daemon gave.
func exitOf(code fsys.Code) int {
	switch code {
	case fsys.NotExist:
		return 3
	case fsys.Exist:
		return 4
	case fsys.Permission:
		return 5
	case fsys.Invalid, fsys.NameTooLong:
		return 6
	case fsys.TooLarge:
		return 7
	case fsys.IsDir, fsys.NotDir, fsys.NotEmpty, fsys.Unsupported, fsys.CrossDir, fsys.BadHandle:
		return 8
	case fsys.Exhausted:
		return 9
	case fsys.Busy:
		return 10
	case fsys.Canceled:
		return 11
	case fsys.Timeout:
		return 12
	case fsys.Unavailable:
		return 13
	case fsys.NoSpace:
		return 14
	}
	return exitFailed
}

// statusOf returns the exit status of a command that ended with err.
func statusOf(ctx context.Context, err error) int {
	var usage usageError
	var exit exitStatus
	var said reported
	var gone *noDaemon
	var other *told
	switch {
	case err == nil:
		return 0
	case ctx.Err() != nil:
		return exitInterrupted
	case errors.As(err, &exit):
		return int(exit)
	case errors.As(err, &said):
		return int(said)
	case errors.As(err, &other):
		return other.status
	case errors.As(err, &usage):
		return exitUsage
	case errors.As(err, &gone):
		return exitUnreachable
	}
	return exitOf(fsys.CodeOf(err))
}

// noDaemon is a failure because there is no connection to a daemon.
type noDaemon struct{ err error }

func (e *noDaemon) Error() string { return words(e.err) }
func (e *noDaemon) Unwrap() error { return e.err }

// codeNamed returns the error of a job or a session whose status names its
// code; what no name of a code is counts as the provider's failure.
func codeNamed(name, reason string) error {
	c := fsys.CodeNamed(name, fsys.Unavailable)
	if c == fsys.Internal {
		c = fsys.Unavailable
	}
	return fsys.E(c, reason)
}
