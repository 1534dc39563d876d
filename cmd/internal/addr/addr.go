// Package addr says where a daemon listens and where it keeps its data, for
// the program that serves and the one that dials.
//
//	unix:/run/agent9.sock    unix!/run/agent9.sock    /run/agent9.sock
//	tcp:127.0.0.1:564        tcp!127.0.0.1!564        tcp!host (port 564)
package addr

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"agent9/fsys"
)

// Port is the port of 9P, for a TCP address that names none.
const Port = "564"

// Parse returns what net.Dial and net.Listen take for an address that is
// written with colons or, as on Plan 9, with exclamation marks. A bare path is
// a Unix socket. The host "*" is every interface. Errors are fsys.Invalid and
// say what would be right.
func Parse(s string) (network, address string, err error) {
	network, rest, ok := cut(s)
	switch {
	case !ok && strings.Contains(s, "/"):
		return "unix", s, nil
	case !ok, rest == "":
		return "", "", bad(s)
	case network == "unix":
		return "unix", rest, nil
	case network == "tcp":
		host, port := rest, Port
		if s[len("tcp")] == '!' {
			if h, p, ok := strings.Cut(rest, "!"); ok {
				host, port = h, p
			}
		} else if h, p, err := net.SplitHostPort(rest); err == nil {
			host, port = h, p
		}
		host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
		if port == "" || strings.ContainsAny(host+port, "!/ ") || strings.Contains(host, ":") && !isIP(host) {
			return "", "", bad(s)
		}
		if host == "*" {
			host = ""
		}
		return "tcp", net.JoinHostPort(host, port), nil
	}
	return "", "", bad(s)
}

// cut splits "network:rest" or "network!rest".
func cut(s string) (network, rest string, ok bool) {
	i := strings.IndexAny(s, ":!")
	if i < 0 || strings.Contains(s[:i], "/") {
		return "", s, false
	}
	return s[:i], s[i+1:], true
}

func bad(s string) error {
	return fsys.E(fsys.Invalid, strconv.Quote(s)+" is not an address; write unix:PATH or tcp:HOST:PORT")
}

// String returns network and address in the form that Parse takes.
func String(network, address string) string { return network + ":" + address }

// DefaultSocket returns the path of the operator's socket: agent9.sock in
// $XDG_RUNTIME_DIR, else in /run/user/UID if that exists, else for root in
// /run, else in agent9-UID in the temporary directory. A server that makes
// the last of these directories makes it 0700.
func DefaultSocket() string {
	const name = "agent9.sock"
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		return filepath.Join(dir, name)
	}
	uid := os.Getuid()
	if dir := "/run/user/" + strconv.Itoa(uid); isDir(dir) {
		return filepath.Join(dir, name)
	}
	if uid == 0 && isDir("/run") {
		return "/run/" + name
	}
	who := strconv.Itoa(uid)
	if uid < 0 { // a system without numbers for users
		who = filepath.Base(home())
	}
	return filepath.Join(os.TempDir(), "agent9-"+who, name)
}

// DefaultData returns the directory of the daemon's data: agent9 in
// $XDG_STATE_HOME, else in ~/.local/state or, on Windows, %LocalAppData%.
func DefaultData() string {
	if dir := os.Getenv("XDG_STATE_HOME"); dir != "" {
		return filepath.Join(dir, "agent9")
	}
	if dir := os.Getenv("LocalAppData"); dir != "" && runtime.GOOS == "windows" {
		return filepath.Join(dir, "agent9")
	}
	if dir := home(); dir != "" {
		return filepath.Join(dir, ".local", "state", "agent9")
	}
	return "/var/lib/agent9"
}

func home() string {
	dir, _ := os.UserHomeDir()
	return dir
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func isIP(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil
}
