package ninep

import (
	"strings"
	"testing"
	"unicode/utf8"

	"agent9/fsys"
)

// v9fsErrno is the part of Linux's net/9p/error.c that our codes can reach.
// Its comparison is exact; anything else is 526.
var v9fsErrno = map[string]uint32{
	"No such file or directory": 2, "Interrupted system call": 4, "Device or resource busy": 16,
	"File exists": 17, "Invalid cross-device link": 18, "Not a directory": 20, "Is a directory": 21,
	"Invalid argument": 22, "File too large": 27, "No space left on device": 28,
	"File name too long": 36, "Directory not empty": 39, "Operation not supported": 95,
	"Connection timed out": 110, "Remote I/O error": 121, "Disk quota exceeded": 122,
	"permission denied": 13, "bad use of fid": 9, "i/o error": 5,
}

func TestErrorTexts(t *testing.T) {
	want := map[fsys.Code]struct {
		text  string // of an error with the reason "because"
		exact uint32 // what v9fs sees with errors=exact
		fuse  uint32 // what 9pfuse sees with errors=auto
	}{
		fsys.Internal:    {"i/o error: because", 5, 5},
		fsys.NotExist:    {"No such file or directory", 2, 2},
		fsys.Exist:       {"File exists", 17, 17},
		fsys.Permission:  {"permission denied: because", 13, 13},
		fsys.Invalid:     {"Invalid argument: because", 22, 22},
		fsys.TooLarge:    {"File too large: because", 27, 34},
		fsys.IsDir:       {"Is a directory", 21, 21},
		fsys.NotDir:      {"Not a directory", 20, 20},
		fsys.NotEmpty:    {"Directory not empty", 39, 20},
		fsys.Unsupported: {"Operation not supported", 95, 34},
		fsys.Exhausted:   {"permission denied: budget exceeded: because", 122, 13},
		fsys.Busy:        {"Device or resource busy: because", 16, 16},
		fsys.Canceled:    {"Interrupted system call", 4, 4},
		fsys.Timeout:     {"Connection timed out: because", 110, 110},
		fsys.Unavailable: {"Remote I/O error: because", 121, 5},
		fsys.NoSpace:     {"No space left on device", 28, 34},
		fsys.CrossDir:    {"Invalid cross-device link", 18, 22},
		fsys.NameTooLong: {"File name too long", 36, 7},
		fsys.BadHandle:   {"bad use of fid", 9, 34},
	}
	for _, code := range fsys.Codes() {
		w, ok := want[code]
		if !ok {
			t.Errorf("%v: no row in this test", code)
			continue
		}
		err := fsys.E(code, "because")
		if got := errorText(err, autoErrors); got != w.text || fuseErrno(got) != w.fuse {
			t.Errorf("%v: auto: %q, which 9pfuse reads as %d; want %q, %d", code, got, fuseErrno(got), w.text, w.fuse)
		}
		if got := errorText(err, exactErrors); v9fsErrno[got] != w.exact {
			t.Errorf("%v: exact: %q, which v9fs reads as %d, want %d", code, got, v9fsErrno[got], w.exact)
		}
		if got := errorText(err, fullErrors); got != code.Text()+": because" {
			t.Errorf("%v: full: %q", code, got)
		}
		if w.exact != code.Errno() {
			t.Errorf("%v: v9fs reads %d in 9P2000 and %d in 9P2000.L", code, w.exact, code.Errno())
		}
	}
}

// A reason must not change what 9pfuse makes of an error.
func TestReasonThatMisleads(t *testing.T) {
	err := fsys.E(fsys.Invalid, "the model does not exist")
	if got := errorText(err, autoErrors); got != "Invalid argument" {
		t.Errorf("auto: %q", got)
	}
	if got := errorText(err, fullErrors); got != "Invalid argument: the model does not exist" {
		t.Errorf("full: %q", got)
	}
}

func TestErrorTextIsBounded(t *testing.T) {
	got := errorText(fsys.E(fsys.Busy, strings.Repeat("ä", 4000)+"\xff"), fullErrors)
	if len(got) > maxErrorText || !utf8.ValidString(got) {
		t.Errorf("%d bytes", len(got))
	}
}

func TestErrorsComeBack(t *testing.T) {
	for _, code := range fsys.Codes() {
		for _, style := range []errorStyle{autoErrors, exactErrors, fullErrors} {
			if got := errorOfText(errorText(fsys.E(code, "why"), style)); fsys.CodeOf(got) != code {
				t.Errorf("%v, style %d: came back as %v", code, style, got)
			}
		}
		if got := errorOfText(errorText(fsys.E(code, "why"), fullErrors)); fsys.ReasonOf(got) != "why" {
			t.Errorf("%v: reason %q", code, fsys.ReasonOf(got))
		}
		if got := errorOfErrno(errnoOf(code)); fsys.CodeOf(got) != code {
			t.Errorf("%v: errno came back as %v", code, got)
		}
	}
	for text, want := range map[string]fsys.Code{ // of other servers
		"file does not exist":      fsys.NotExist,
		"file already exists":      fsys.Exist,
		"Permission denied":        fsys.Permission,
		"directory is not empty":   fsys.NotDir, // as 9pfuse reads it
		"something nobody thought": fsys.Internal,
	} {
		if got := errorOfText(text); fsys.CodeOf(got) != want {
			t.Errorf("%q: %v, want %v", text, fsys.CodeOf(got), want)
		}
	}
}

func TestErrnos(t *testing.T) {
	for err, want := range map[error]uint32{
		errNoAttr:                     61,
		errNoAuth:                     2,
		fsys.E(fsys.Exhausted, "why"): 122,
	} {
		if got := errnoOf(err); got != want {
			t.Errorf("%v: %d, want %d", err, got, want)
		}
	}
}
