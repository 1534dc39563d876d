package conformance_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const (
	permissionDenied = "Permission denied"
	quotaExceeded    = "Disk quota exceeded"
	invalidArgument  = "Invalid argument"
	notEmpty         = "not empty"
)

func testAgentctlMount(t *testing.T, bin string) {
	d := startDaemon(t, bin)
	dir := filepath.Join(d.dir, "m")
	mount(t, dir, bin+"/agentctl", "--addr", "tcp:127.0.0.1:"+d.port, "--token", d.token, "mount", "--foreground", dir)
	d.shell(t, 1, d.script(t, "mount.sh", map[string]string{
		"M": dir, "BLOCK": dir, "READERS": "cat dd shell", "FOLLOW": "",
		"QUOTA": quotaExceeded, "INVALID": invalidArgument, "FULL": notEmpty,
	}), "bash")
}

// 9pfuse never sends Tflush, so a blocked read is bounded by ?wait.
func test9pfuse(t *testing.T, bin string) {
	need(t, "it is part of plan9port, which Debian does not have", "9pfuse")
	d := startDaemon(t, bin)
	dir, block := filepath.Join(d.dir, "m"), filepath.Join(d.dir, "b")
	address := "tcp!127.0.0.1!" + d.port
	mount(t, dir, "9pfuse", "-a", d.token, address, dir)
	mount(t, block, "9pfuse", "-a", d.token+"?wait=1s", address, block)
	d.shell(t, 1, d.script(t, "mount.sh", map[string]string{
		"M": dir, "BLOCK": block, "READERS": "cat dd shell", "FOLLOW": "",
		// It takes the first word that it knows.
		"QUOTA": permissionDenied, "INVALID": invalidArgument, "FULL": "Not a directory",
	}), "bash")
}

func test9p(t *testing.T, bin string) {
	need(t, "it is part of plan9port, which Debian does not have", "9p")
	d := startDaemon(t, bin)
	d.shell(t, 1, d.script(t, "9p.sh", map[string]string{
		"ADDR": "tcp!127.0.0.1!" + d.port, "ANAME": d.token,
	}), "bash")
}

// diod's clients ask for as much as a reply can hold each time, as v9fs does
// when it wants to know whether there is more: hence ?stream=plain.
func testDiod(t *testing.T, bin string) {
	t.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin")
	need(t, "Debian's diod has it", "diodls", "diodcat", "dioddate")
	d := startDaemon(t, bin)
	c, err := dialHugelgupf("tcp", "127.0.0.1:"+d.port, d.token)
	if err != nil {
		t.Fatal(err)
	}
	defer c.hangUp()
	writeFile(t, c, "inbox/new", "hello "+agent+"\n")
	d.shell(t, 1, d.script(t, "diod.sh", map[string]string{
		"SERVER": "127.0.0.1:" + d.port, "ANAME": d.token + "?stream=plain",
		"SPEAKING": ask(t, c, "compute/new", speak), "HELD": ask(t, c, "compute/new", hold),
	}), "bash")
}

// testV9fs mounts with the Linux kernel's own client in a guest, once with the
// programs of GNU and once with busybox's, for each kernel and dialect.
func testV9fs(t *testing.T, bin string) {
	need(t, "the guest needs it (deps.sh)", "qemu-system-x86_64", "busybox", "cpio", "xz", "zstd")
	kernels := []string{"6.1"}
	if os.Getenv("AGENT9_KERNELS") == "all" {
		kernels = []string{"6.1", "6.12", "7.2"}
	}
	for _, kernel := range kernels {
		for _, version := range []string{"9P2000.L", "9P2000"} {
			t.Run(kernel+" "+version, func(t *testing.T) {
				needKernel(t, kernel)
				testGuest(t, bin, kernel, version)
			})
		}
	}
}

func needKernel(t *testing.T, kernel string) {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Skipf("no cache of kernels: %v", err)
	}
	if _, err := os.Stat(filepath.Join(cache, "agent9", "kernels", kernel)); err != nil {
		t.Skipf("no kernel %s: v9fs/kernels.sh unpacks it", kernel)
	}
}

func testGuest(t *testing.T, bin, kernel, version string) {
	d := startDaemon(t, bin)
	options, aname, follow := "version=9p2000.L", d.token, ""
	if version == "9P2000" {
		// v9fs compares error texts whole, and knows no owners by name.
		options = "version=9p2000,dfltuid=0,dfltgid=0"
		aname += "?errors=exact&stream=v9fs"
		follow = "GNU tail takes v9fs for a local file system when the dialect has no statfs"
	}
	quota, invalid := quotaExceeded, invalidArgument
	if kernel == "6.12" { // a write's error becomes another on its way through netfs
		quota, invalid = "Input/output error|No space left", "Input/output error"
	}
	var programs []string
	for _, p := range strings.Fields("bash cat ls find grep cp mv rm mkdir rmdir sed head tail dd cmp wc jq vim") {
		if _, err := exec.LookPath(p); err == nil {
			programs = append(programs, p)
		}
	}

	var guest strings.Builder
	fmt.Fprintf(&guest, "mount -t 9p -o 'trans=tcp,port=%s,msize=65536,access=any,%s,aname=%s' 10.0.2.2 /m || exit 97\n", d.port, options, aname)
	for _, run := range []struct{ name, shell, path, readers, follow string }{
		{"GNU", "/x/bash", "/x:/bin", "cat dd shell", follow},
		{"busybox", "/bin/sh", "/bin", "dd shell", "busybox tail shows nothing until its buffer is full"},
	} {
		env := map[string]string{"FLAVOR": run.name, "M": "/m", "BLOCK": "/m", "READERS": run.readers, "FOLLOW": run.follow,
			"QUOTA": quota, "INVALID": invalid, "FULL": notEmpty}
		fmt.Fprintf(&guest, "cat >/tmp/%s.sh <<'END OF SCRIPT'\n%sEND OF SCRIPT\n", run.name, strings.TrimSuffix(d.script(t, "mount.sh", env), "\n")+"\n")
		fmt.Fprintf(&guest, "PATH=%s %s /tmp/%s.sh\n", run.path, run.shell, run.name)
		guest.WriteString("rm -rf /m/goals/*\n")
	}
	guest.WriteString("umount /m\n")
	d.shell(t, 2, guest.String(), "v9fs/v9fs.sh", "-k", kernel, "-t", "100", "-x", strings.Join(programs, " "), "-")
}
