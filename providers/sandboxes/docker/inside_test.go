//go:build unix

package docker_test

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/image"

	"agent9/fsys"
	"agent9/providers/sandboxes"
)

// TestInside looks from inside at what holds a sandbox.
func TestInside(t *testing.T) {
	t.Parallel()
	b := on(t, shared.Get(t))
	box := b.box(sandboxes.Spec{Limits: sandboxes.Limits{Memory: 64 << 20, PIDs: 64, Disk: 4 << 20}})
	for _, c := range []struct{ what, command, want string }{
		{"user", "id -u; id -g; id -G", "65534\n65534\n65534"},
		{"capabilities", "grep -E '^Cap(Inh|Prm|Eff|Bnd|Amb)' /proc/self/status | grep -vc 0000000000000000", "0"},
		{"the box's capabilities", "grep -E '^Cap(Inh|Prm|Eff|Bnd|Amb)' /proc/1/status | grep -vc 0000000000000000", "0"},
		{"new privileges", "awk '/^NoNewPrivs/{print $2}' /proc/self/status", "1"},
		{"seccomp", "awk '/^Seccomp:/{print $2}' /proc/self/status", "2"},
		{"devices", "ls /dev", "fd\nfull\nmqueue\nnull\nptmx\npts\nrandom\nshm\nstderr\nstdin\nstdout\ntty\nurandom\nzero"},
		{"making a device", "mknod /tmp/d b 254 0 2>&1 | grep -c 'not permitted'", "1"},
		{"mounting", "mount -t tmpfs none /tmp 2>&1 | grep -c -e denied -e 'not permitted'", "1"},
		{"a user name space", "unshare -U true 2>&1 | grep -c -e denied -e 'not permitted'", "1"},
		{"the root", "touch /x 2>&1; touch /agent9/x 2>&1; rm /agent9/a9 2>&1", "touch: /x: Read-only file system\ntouch: /agent9/x: Read-only file system\nrm: can't remove '/agent9/a9': Read-only file system"},
		{"what can be written", "find / -xdev -writable -not -type l 2>/dev/null; touch /workspace/a /tmp/b && echo yes", "yes"},
		{"networks", "ls /sys/class/net", "lo"},
		{"ports of this host", "wc -l </proc/net/tcp", "1"},
		{"engine sockets", "find / -name 'docker.sock' -o -name 'containerd.sock' 2>/dev/null", ""},
		{"processes", "ls -d /proc/[0-9]* | wc -l | awk '{print $1 < 6}'", "1"},
		{"core files", "ulimit -c", "0"},
		{"file size", "ulimit -f", "8192"},
		{"a program in /tmp", "cp /bin/busybox /tmp/echo && /tmp/echo ran", "ran"},
		{"the box's environment", "cat /proc/1/environ 2>&1 | grep -c denied", "1"},
	} {
		if got, _ := b.sh(box, c.command); got != strings.TrimSpace(c.want) {
			t.Errorf("%s: %s\n got %q\nwant %q", c.what, c.command, got, strings.TrimSpace(c.want))
		}
	}
}

// TestVolumesOfImage uses an image that declares places to write to.
func TestVolumesOfImage(t *testing.T) {
	t.Parallel()
	b := on(t, shared.Get(t))
	const name = "agent9-test-volumes:latest"
	derive(b, name, "VOLUME /root", "HEALTHCHECK CMD true", `ENTRYPOINT ["/bin/false"]`)
	box := b.box(sandboxes.Spec{Image: name})
	if got, _ := b.sh(box, "mount | grep -c ' /root .*[(]ro,'; touch /root/x 2>&1"); got != "1\ntouch: /root/x: Permission denied" && got != "1\ntouch: /root/x: Read-only file system" {
		t.Errorf("the volume that the image declares: %q", got)
	}
}

// derive makes an image of the default one with these changes, as long as the
// test runs.
func derive(b *bench, name string, changes ...string) {
	b.t.Helper()
	root := b.engine.Root(b.t)
	said, err := b.engine.API.ImageImport(b.t.Context(), image.ImportSource{Source: root, SourceName: "-"}, name, image.ImportOptions{Changes: changes})
	if err != nil {
		b.t.Fatal(err)
	}
	defer said.Close()
	if _, err := io.Copy(io.Discard, said); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { b.engine.API.ImageRemove(context.Background(), name, image.RemoveOptions{Force: true}) })
}

func TestSkills(t *testing.T) {
	t.Parallel()
	b := on(t, shared.Get(t))
	spec := sandboxes.Spec{Workspace: "w", Skills: []sandboxes.File{
		{Name: "git/SKILL.md", Data: []byte("commit often\n")},
		{Name: "git/run.sh", Data: []byte("#!/bin/sh\necho skilled\n")},
		{Name: "zwei wörter", Data: []byte("x")},
	}}
	box := b.box(spec)
	for _, c := range []struct{ command, want string }{
		{"cat skills/git/SKILL.md; skills/git/run.sh; cat 'skills/zwei wörter'", "commit often\nskilled\nx"},
		{"echo x >skills/git/SKILL.md", "/bin/sh: can't create skills/git/SKILL.md: Read-only file system"},
		{"mv skills other 2>&1 | grep -c .; rm -rf skills 2>/dev/null; echo skills/*", "1\nskills/git skills/zwei wörter"},
	} {
		if got, _ := b.sh(box, c.command+" 2>&1"); got != c.want {
			t.Errorf("%s\n got %q\nwant %q", c.command, got, c.want)
		}
	}
	if box.Where().Skills != "/workspace/skills" {
		t.Errorf("Where: %+v", box.Where())
	}
	if err := box.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	// What a program left in the way in its workspace does not matter.
	for _, trick := range []string{"rmdir skills && ln -s /etc skills", "rmdir skills && ln -s nowhere skills"} {
		box = b.box(sandboxes.Spec{Workspace: "w"})
		if out, exit := b.sh(box, trick); exit.Code != 0 {
			t.Fatalf("%s: %s", trick, out)
		}
		box.Remove(t.Context())
		box = b.box(spec)
		if got, _ := b.sh(box, "cat skills/git/SKILL.md; ls /etc"); got != "commit often\ngroup\nhostname\nhosts\nmtab\npasswd\nresolv.conf" {
			t.Errorf("after %s: %q", trick, got)
		}
		box.Remove(t.Context())
	}
	box = b.box(sandboxes.Spec{Workspace: "w"})
	b.sh(box, "rmdir skills && echo mine >skills")
	box.Remove(t.Context())
	if _, err := b.Create(t.Context(), spec, silent); fsys.CodeOf(err) != fsys.Exist {
		t.Errorf("with a file in the way: %v", err)
	}
	if err := b.RemoveWorkspace(t.Context(), "w"); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"../x", "/x", "", "."} {
		_, err := b.Create(t.Context(), sandboxes.Spec{Skills: []sandboxes.File{{Name: name}}}, silent)
		if fsys.CodeOf(err) != fsys.Invalid {
			t.Errorf("a skill named %q: %v", name, err)
		}
	}
}
