package addr

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"agent9/fsys"
)

func TestParse(t *testing.T) {
	for _, c := range []struct{ in, network, address string }{
		{"unix:/run/a.sock", "unix", "/run/a.sock"},
		{"unix!/run/a.sock", "unix", "/run/a.sock"},
		{"unix:rel.sock", "unix", "rel.sock"},
		{"unix:/odd:name!x", "unix", "/odd:name!x"},
		{"/run/a.sock", "unix", "/run/a.sock"},
		{"./a:b", "unix", "./a:b"},
		{"tcp:127.0.0.1:5640", "tcp", "127.0.0.1:5640"},
		{"tcp!127.0.0.1!5640", "tcp", "127.0.0.1:5640"},
		{"tcp:host", "tcp", "host:564"},
		{"tcp!host", "tcp", "host:564"},
		{"tcp!host!9fs", "tcp", "host:9fs"},
		{"tcp:[::1]:5640", "tcp", "[::1]:5640"},
		{"tcp:::1", "tcp", "[::1]:564"},
		{"tcp!::1!5640", "tcp", "[::1]:5640"},
		{"tcp![::1]!5640", "tcp", "[::1]:5640"},
		{"tcp!fe80::1%eth0!564", "tcp", "[fe80::1%eth0]:564"},
		{"tcp!*!5640", "tcp", ":5640"},
		{"tcp::5640", "tcp", ":5640"},
	} {
		network, address, err := Parse(c.in)
		if err != nil || network != c.network || address != c.address {
			t.Errorf("Parse(%q) = %q, %q, %v; want %q, %q", c.in, network, address, err, c.network, c.address)
			continue
		}
		n, a, err := Parse(String(network, address))
		if err != nil || n != network || a != address {
			t.Errorf("Parse(String(%q, %q)) = %q, %q, %v", network, address, n, a, err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, in := range []string{
		"", "host", "unix:", "unix!", "tcp:", "udp:host:1", "host:1", "tcp!a!b!c", "tcp:a:b:c", "tcp:host:",
	} {
		if n, a, err := Parse(in); fsys.CodeOf(err) != fsys.Invalid || fsys.ReasonOf(err) == "" {
			t.Errorf("Parse(%q) = %q, %q, %v; want an Invalid with a reason", in, n, a, err)
		}
	}
}

func TestDefaults(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", "/r")
	t.Setenv("XDG_STATE_HOME", "/s")
	if got := DefaultSocket(); got != filepath.Join("/r", "agent9.sock") {
		t.Errorf("DefaultSocket() = %q", got)
	}
	if got := DefaultData(); got != filepath.Join("/s", "agent9") {
		t.Errorf("DefaultData() = %q", got)
	}
}

func TestDefaultsWithoutXDG(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", "")
	t.Setenv("XDG_STATE_HOME", "")
	t.Setenv("LocalAppData", "")
	t.Setenv("HOME", "/home/glenda")
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	uid := os.Getuid()
	want := filepath.Join(tmp, "agent9-"+strconv.Itoa(uid), "agent9.sock")
	if dir := "/run/user/" + strconv.Itoa(uid); isDir(dir) {
		want = dir + "/agent9.sock"
	} else if uid == 0 && isDir("/run") {
		want = "/run/agent9.sock"
	}
	if got := DefaultSocket(); got != want {
		t.Errorf("DefaultSocket() = %q, want %q", got, want)
	}
	if got := DefaultData(); got != "/home/glenda/.local/state/agent9" {
		t.Errorf("DefaultData() = %q", got)
	}
}
