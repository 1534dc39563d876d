package isolation

import (
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"agent9/conformance/daemon"
	"agent9/fsys"
	"agent9/fsys/export/fuse"
)

// mounted is alice's tree, mounted by agentctl with a token of hers.
func mounted(t *testing.T, address, dir, token string) {
	t.Helper()
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	daemon.NeedFUSE(t)
	if out, ok := daemon.Ctl(t, "tcp:"+address, "", "--token", token, "mount", dir); !ok {
		t.Fatal(out)
	}
	t.Cleanup(func() { fuse.Unmount(dir) })
}

// changes are what a program may try to a file at path, beside reading it; each
// returns nil if it was done. mine is a file that the program may read.
var changes = map[string]func(path, mine string) error{
	"write":       func(path, _ string) error { return os.WriteFile(path, []byte("changed"), 0o644) },
	"append":      func(path, _ string) error { return writeTo(path, os.O_APPEND) },
	"create":      func(path, _ string) error { return writeTo(path, os.O_CREATE|os.O_EXCL) },
	"truncate":    func(path, _ string) error { return os.Truncate(path, 0) },
	"remove":      func(path, _ string) error { return os.Remove(path) },
	"mkdir":       func(path, _ string) error { return os.Mkdir(path, 0o755) },
	"rename to":   func(path, mine string) error { return os.Rename(mine, path) },
	"rename from": func(path, mine string) error { return os.Rename(path, mine+".stolen") },
	"link to":     func(path, mine string) error { return os.Link(mine, path) },
	"link from":   func(path, mine string) error { return os.Link(path, mine+".stolen") },
	"chmod":       func(path, _ string) error { return os.Chmod(path, 0o777) },
	"mknod":       func(path, _ string) error { return unix.Mknod(path, unix.S_IFBLK|0o666, 8<<8) },
	"setxattr":    func(path, _ string) error { return unix.Setxattr(path, "user.x", []byte("x"), 0) },
	"exchange": func(path, mine string) error {
		return unix.Renameat2(unix.AT_FDCWD, mine, unix.AT_FDCWD, path, unix.RENAME_EXCHANGE)
	},
}

func writeTo(path string, flag int) error {
	f, err := os.OpenFile(path, os.O_WRONLY|flag, 0o644)
	if err != nil {
		return err
	}
	if _, err := f.WriteString("changed"); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

// A mount with an agent's token shows its tree and nothing else, and changes
// nothing that the agent may not change.
func TestIsolationOverFUSE(t *testing.T) {
	d, r, address, _ := estate(t)
	token := r.Ask("ctl", "token alice rw")
	if err := os.Chmod(d.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	dir, secret := filepath.Join(d.Dir, "m"), filepath.Join(d.Dir, "secret")
	if err := os.WriteFile(secret, []byte(treasure), 0o644); err != nil {
		t.Fatal(err)
	}
	mounted(t, address, dir, token)
	at := func(path string) string { return dir + "/" + path } // not cleaned
	mine := at("goals/mine")
	if err := os.WriteFile(mine, []byte("alice's"), 0o644); err != nil {
		t.Fatal(err)
	}

	for _, way := range ways {
		if strings.HasPrefix(way, "..") { // which is the directory that dir is in
			continue
		}
		b, err := os.ReadFile(at(way))
		if strings.Contains(string(b), treasure) || strings.Contains(string(b), "root:") {
			t.Errorf("%q can be read: %q, %v", way, b, err)
		}
	}
	// The operator's files, which alice only reads.
	for _, path := range []string{"config", "budget/limits", "compute/policy", "containers/policy", "status", "README"} {
		was, err := os.ReadFile(at(path))
		if err != nil {
			t.Error(err)
			continue
		}
		for what, change := range changes {
			if err := change(at(path), mine); err == nil {
				t.Errorf("%s of %s was done", what, path)
			}
		}
		if b, err := os.ReadFile(at(path)); err != nil || path != "status" && string(b) != string(was) {
			t.Errorf("%s was %q and is %q, %v", path, was, b, err)
		}
	}
	for _, path := range []string{"approvals/1", "secrets/MINE", "agents", "bob", "tokens", "ctl.new", "budget/new", "identity/new"} {
		for what, change := range changes {
			if err := change(at(path), mine); err == nil {
				t.Errorf("%s of %s was done", what, path)
			}
		}
	}
	for _, name := range []string{"goals", "state", "inbox", "identity", "."} {
		if err := syscall.Rename(at(name), at("goals/moved")); err == nil {
			t.Errorf("%s was moved", name)
		}
	}

	// Across directories and file systems, and links that lead out.
	for what, err := range map[string]error{
		"a rename to the host":            os.Rename(mine, filepath.Join(d.Dir, "stolen")),
		"a rename from the host":          os.Rename(secret, at("goals/secret")),
		"a link to the host":              os.Link(secret, at("goals/secret")),
		"a link from the host":            os.Link(mine, filepath.Join(d.Dir, "stolen")),
		"a symbolic link to the host":     os.Symlink(secret, at("goals/secret")),
		"a symbolic link to another":      os.Symlink("../../bob/goals/plan", at("goals/plan")),
		"a symbolic link to the root":     os.Symlink("/", at("state/root")),
		"a pipe":                          unix.Mkfifo(at("goals/pipe"), 0o644),
		"a socket":                        bind(at("goals/sock")),
		"a change of the owner":           os.Chown(mine, 12345, 12345),
		"a rename to what the service is": os.Rename(mine, at("compute/new")),
		"a rename into the inbox":         os.Rename(mine, at("inbox/mine")),
	} {
		if err == nil {
			t.Errorf("%s was done", what)
		}
	}
	if b, err := os.ReadFile(mine); err != nil || string(b) != "alice's" {
		t.Errorf("her own file is %q, %v", b, err)
	}

	// Nothing by another door: attributes, ioctls, devices, other users.
	f, err := os.Open(mine)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, request := range []uint{unix.FS_IOC_GETFLAGS, unix.FS_IOC_SETFLAGS, unix.FICLONE, 0xc0045877 /* FIFREEZE */, unix.TIOCSTI, unix.FS_IOC_ENABLE_VERITY} {
		var arg [256]byte
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), uintptr(request), uintptr(unsafe.Pointer(&arg))); errno == 0 {
			t.Errorf("ioctl %#x was done", request)
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if !strings.Contains(line, " "+dir+" ") {
			continue
		}
		if !strings.Contains(line, "nosuid") || !strings.Contains(line, "nodev") || strings.Contains(line, token) {
			t.Errorf("it is mounted as %s", strings.ReplaceAll(line, token, "(the token)"))
		}
	}
	if os.Geteuid() == 0 {
		cat := exec.CommandContext(daemon.Within(t), "cat", mine)
		cat.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		if out, err := cat.CombinedOutput(); err == nil || strings.Contains(string(out), "alice's") {
			t.Errorf("another user reads %q", out)
		}
	}

	// All the names there are, and what is said of those that are not.
	seen := 0
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		seen++
		if strings.Contains(path[len(dir):], "bob") {
			t.Errorf("%s names another agent", path)
		}
		if !e.IsDir() {
			if names, err := listxattr(path); err == nil && names != "" {
				t.Errorf("%s has the attributes %q", path, names)
			}
			return nil
		}
		_, bob := os.Lstat(path + "/bob")
		_, bub := os.Lstat(path + "/bub")
		if bob == nil || strings.ReplaceAll(bob.Error(), "bob", "bub") != bub.Error() {
			t.Errorf("%v, but %v", bob, bub)
		}
		return nil
	})
	if err != nil || seen < 50 {
		t.Errorf("%d files, %v", seen, err)
	}
	refusals, err := os.ReadFile(at("logs/errors"))
	if err != nil || strings.Contains(string(refusals), treasure) || strings.Contains(string(refusals), token) {
		t.Errorf("her log of refusals: %v, %s", err, refusals)
	}

	daemon.Equal(t, "bob's goal", r.Read("agents/bob/goals/plan"), treasure)
	daemon.Equal(t, "bob's state", r.Read("agents/bob/state/memory"), treasure)
	daemon.Equal(t, "alice's goals", r.List("agents/alice/goals"), "mine")
	if b, err := os.ReadFile(secret); err != nil || string(b) != treasure {
		t.Errorf("the host's file is %q, %v", b, err)
	}
	if left, _ := filepath.Glob(d.Dir + "/*stolen"); len(left) > 0 {
		t.Errorf("%v came out", left)
	}

	// When the token ends, so does all that the mount shows, but for what its
	// kernel has already of a file that is open.
	r.Remove("tokens/" + r.List("tokens"))
	r.Write("agents/alice/goals/mine", "changed")
	had := make([]byte, 7)
	if n, err := f.ReadAt(had, 0); err == nil && string(had[:n]) != "alice's" {
		t.Errorf("with a token that was revoked, an open file gave %q", had[:n])
	}
	for what, err := range map[string]error{
		"a read":     func() error { _, err := os.ReadFile(mine); return err }(),
		"a listing":  func() error { _, err := os.ReadDir(dir); return err }(),
		"a write":    os.WriteFile(mine, []byte("too late"), 0o644),
		"a new file": os.WriteFile(at("goals/late"), nil, 0o644),
	} {
		if err == nil {
			t.Errorf("with a token that was revoked, %s was done", what)
		}
	}
	daemon.Equal(t, "alice's goals", r.List("agents/alice/goals"), "mine")
	daemon.Equal(t, "alice's goal", r.Read("agents/alice/goals/mine"), "changed")
	if _, err := daemon.Attach(t, "tcp", address, token); fsys.CodeOf(err) != fsys.Permission {
		t.Errorf("attached with it: %v", err)
	}
}

func bind(path string) error {
	l, err := net.Listen("unix", path)
	if err == nil {
		l.Close()
	}
	return err
}

func listxattr(path string) (string, error) {
	b := make([]byte, 1024)
	n, err := unix.Llistxattr(path, b)
	if err != nil {
		return "", err
	}
	return string(b[:n]), nil
}
