package fsys

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
)

// A Code is the class of an error: all that crosses every wire. A Code is
// itself an error, so a bare Code can be returned, and errors.Is(err, code)
// holds for every error that [E] made with it.
//
// Add new codes at the end; their names are stored in logs.
type Code uint8

const (
	Internal Code = iota
	NotExist
	Exist
	Permission
	Invalid
	TooLarge
	IsDir
	NotDir
	NotEmpty
	Unsupported
	Exhausted // a budget or quota said no
	Busy      // over a rate or a count, not ready, or in the wrong state
	Canceled
	Timeout
	Unavailable // something outside this program failed
	NoSpace     // the disk is full
	CrossDir    // a rename to another directory
	NameTooLong
	BadHandle // closed, or not open for this
	nCodes
)

// codes is the one table that every front end reads. The 9P2000 texts are
// spelled as Linux's v9fs and plan9port's 9pfuse know them, where they know
// the error at all (net/9p/error.c; src/cmd/9pfuse/errstr.c).
var codes = [nCodes]struct {
	name  string // in logs and JSON
	text  string // 9P2000 Rerror
	errno uint32 // 9P2000.L Rlerror and FUSE, in Linux numbering
	http  int
	// reasoned: a person is refused here and wants to know why, so front ends
	// that carry text add the reason. The others are acted upon by kernels,
	// which compare the whole text.
	reasoned bool
}{
	Internal:    {"internal", "i/o error", 5, 500, true},
	NotExist:    {"not-found", "No such file or directory", 2, 404, false},
	Exist:       {"exists", "File exists", 17, 409, false},
	Permission:  {"forbidden", "permission denied", 13, 403, true},
	Invalid:     {"invalid", "Invalid argument", 22, 400, true},
	TooLarge:    {"too-large", "File too large", 27, 413, true},
	IsDir:       {"is-directory", "Is a directory", 21, 409, false},
	NotDir:      {"not-directory", "Not a directory", 20, 409, false},
	NotEmpty:    {"not-empty", "Directory not empty", 39, 409, false},
	Unsupported: {"unsupported", "Operation not supported", 95, 405, false},
	Exhausted:   {"budget", "permission denied: budget exceeded", 122, 402, true},
	Busy:        {"busy", "Device or resource busy", 16, 409, true},
	Canceled:    {"canceled", "Interrupted system call", 4, 499, false},
	Timeout:     {"timeout", "Connection timed out", 110, 504, true},
	Unavailable: {"provider", "Remote I/O error", 121, 502, true},
	NoSpace:     {"no-space", "No space left on device", 28, 507, false},
	CrossDir:    {"cross-directory", "Invalid cross-device link", 18, 409, false},
	NameTooLong: {"name-too-long", "File name too long", 36, 400, false},
	BadHandle:   {"bad-handle", "bad use of fid", 9, 400, false},
}

func (c Code) Error() string { return codes[c].text }

// String returns the name that logs and JSON use, such as "not-found".
func (c Code) String() string { return codes[c].name }

// Text returns the 9P2000 error text, without a reason.
func (c Code) Text() string { return codes[c].text }

// Exact returns the 9P2000 error text with which Linux's v9fs knows the error
// number; it differs from Text where a person is told in other words.
func (c Code) Exact() string {
	if c == Exhausted {
		return "Disk quota exceeded"
	}
	return c.Text()
}

// Errno returns the Linux error number, whatever system this runs on.
func (c Code) Errno() uint32 { return codes[c].errno }

// HTTP returns the HTTP status.
func (c Code) HTTP() int { return codes[c].http }

// Reasoned reports whether a front end that carries text adds the reason.
func (c Code) Reasoned() bool { return codes[c].reasoned }

// Codes returns every Code, for tests of a front end's translation.
func Codes() []Code {
	all := make([]Code, nCodes)
	for i := range all {
		all[i] = Code(i)
	}
	return all
}

// CodeOfErrno returns the Code of a Linux error number, as a client of
// 9P2000.L needs it.
func CodeOfErrno(errno uint32) Code {
	switch errno {
	case 1, 30: // EPERM, EROFS
		return Permission
	case 125: // ECANCELED
		return Canceled
	case 11: // EAGAIN
		return Busy
	}
	for c := range codes {
		if codes[c].errno == errno {
			return Code(c)
		}
	}
	return Internal
}

// CodeNamed returns the code whose [Code.String] is name, or otherwise if there is
// none.
func CodeNamed(name string, otherwise Code) Code {
	for c := range codes {
		if codes[c].name == name {
			return Code(c)
		}
	}
	return otherwise
}

// An Error is a failed operation: its class, and the reason in words for the
// person who reads it. The reason says what is wrong and, where it is not
// plain, what would be right; it names no Go identifiers.
type Error struct {
	Code   Code
	Reason string
	Err    error // what happened underneath; may be nil
}

func (e *Error) Error() string {
	if e.Reason == "" {
		return e.Code.Text()
	}
	return e.Code.Text() + ": " + e.Reason
}

func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Code}
	}
	return []error{e.Code, e.Err}
}

// E returns an Error with code and a reason for people.
func E(code Code, reason string) error { return &Error{Code: code, Reason: reason} }

// Wrap returns an Error with code whose reason is what, then what err says.
// It returns nil when err is nil, and keeps err's own code if it has one.
func Wrap(code Code, what string, err error) error {
	if err == nil {
		return nil
	}
	if c, ok := codeOf(err); ok {
		code = c
	}
	reason := ReasonOf(err)
	if what != "" && reason != "" {
		reason = what + ": " + reason
	} else if what != "" {
		reason = what
	}
	return &Error{Code: code, Reason: reason, Err: err}
}

// CodeOf classifies any error; Internal if nothing better is known.
func CodeOf(err error) Code {
	c, _ := codeOf(err)
	return c
}

func codeOf(err error) (Code, bool) {
	var c Code
	if errors.As(err, &c) {
		return c, true
	}
	if c, ok := codeOfOS(err); ok {
		return c, true
	}
	switch {
	case errors.Is(err, context.Canceled):
		return Canceled, true
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return Timeout, true
	case errors.Is(err, fs.ErrNotExist):
		return NotExist, true
	case errors.Is(err, fs.ErrExist):
		return Exist, true
	case errors.Is(err, fs.ErrPermission):
		return Permission, true
	}
	return Internal, false
}

// ReasonOf returns the words for people of any error, without the text of its
// code; empty if there are none.
func ReasonOf(err error) string {
	var e *Error
	var c Code
	switch {
	case err == nil:
		return ""
	case errors.As(err, &e):
		return e.Reason
	case errors.As(err, &c):
		return ""
	}
	return err.Error()
}

// IsEOF reports whether err says that a read is at the end.
func IsEOF(err error) bool { return errors.Is(err, io.EOF) }
