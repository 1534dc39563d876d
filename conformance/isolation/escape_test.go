//go:build linux

package isolation

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"agent9/conformance/daemon"
	"agent9/conformance/engine"
	"agent9/fsys"
)

// escapes are what a program in a sandbox tries; each says ESCAPED and what it
// got. $1 is a file of the host, $2 the daemon's data, $3 a port on which the
// host listens, $4 the daemon's process, $5 which paths a sandbox may learn of.
const escapes = `
escaped() { echo "ESCAPED: $*"; }
cat "$1" 2>/dev/null | grep -q treasure && escaped "reads the host's files"
ls "$2" >/dev/null 2>&1 && escaped "sees the daemon's data"
seen=$(cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\0' ' ')
case "$seen" in *"--data $2 --listen unix"*) escaped "sees the daemon's process" ;; esac
cat /proc/1/environ 2>/dev/null | grep -q AGENT9_ESCAPE_MARK && escaped "sees the daemon's environment"
for p in /proc/[0-9]*; do cat $p/root"$1" 2>/dev/null | grep -q treasure && escaped "the root of $p"; done
for f in /proc/sysrq-trigger /proc/sys/kernel/core_pattern /proc/sys/kernel/hostname /proc/sys/vm/overcommit_memory /sys/kernel/uevent_helper /sys/power/state; do
	( : >> $f ) 2>/dev/null && escaped "may write $f"
done
for f in /dev/mem /dev/kmem /dev/port /dev/kmsg /dev/kvm /dev/sda /dev/vda /dev/nvme0n1 /dev/fuse /dev/mapper/control; do
	( : < $f ) 2>/dev/null && escaped "opens $f"
done
mknod /tmp/dev b 8 0 2>/dev/null && ( : < /tmp/dev ) 2>/dev/null && escaped "makes devices"
mkdir -p /tmp/m
mount -t tmpfs none /tmp/m 2>/dev/null && escaped "mounts"
mount --bind / /tmp/m 2>/dev/null && escaped "binds"
mount -o remount,rw / 2>/dev/null && escaped "mounts anew"
( : >> /usr/escaped ) 2>/dev/null && escaped "writes /usr"
unshare -Urm sh -c "mount -t proc none /proc && cat /proc/1/root$1" 2>/dev/null | grep -q treasure && escaped "by a user namespace"
nsenter -t 1 -m cat "$1" 2>/dev/null | grep -q treasure && escaped "enters the host's namespace"
for s in /var/run/docker.sock /run/docker.sock /run/containerd/containerd.sock /run/dbus/system_bus_socket /run/systemd/private; do
	[ -S $s ] && escaped "has $s"
done
if command -v bash >/dev/null; then
	bash -c "exec 3<>/dev/tcp/127.0.0.1/$3" 2>/dev/null && escaped "reaches the host's loopback"
fi
find / -xdev -name 'of-bob' 2>/dev/null | grep -q . && escaped "sees another sandbox"
kill -0 "$4" 2>/dev/null && grep -q agentd /proc/"$4"/cmdline 2>/dev/null && escaped "may signal the daemon"
find / -xdev -type s 2>/dev/null | grep -v -e '^/workspace' -e '^/run/agent9' | sed 's/^/socket: /'
a9 ls / 2>/dev/null | grep -q -e '^agents' -e '^tokens' && escaped "is the operator"
for way in ../bob /agents/bob ../../agents/bob; do
	a9 read $way/goals/plan 2>/dev/null | grep -q what-only && escaped "reads bob's goals"
done
grep -q 'NoNewPrivs:[[:space:]]*1' /proc/self/status || escaped "may gain privileges by setuid"
caps=$((0x$(sed -n 's/^CapEff:[[:space:]]*//p' /proc/self/status)))
for c in 2:dac_read_search 12:net_admin 13:net_raw 16:sys_module 17:sys_rawio 19:sys_ptrace 21:sys_admin 22:sys_boot 25:sys_time 27:mknod 34:syslog 38:perfmon 39:bpf; do
	[ $((caps >> ${c%%:*} & 1)) = 0 ] || escaped "has the capability ${c#*:}"
done
sed -n '3,$s/:.*//p' /proc/net/dev | grep -v -w lo | grep -q . && escaped "has a network"
grep -q ' @' /proc/net/unix && escaped "sees abstract sockets of others"
for f in /proc/kcore /proc/keys /proc/timer_list /proc/sched_debug /sys/firmware/dmi/tables/DMI /dev/autofs /dev/loop-control /dev/vhost-net /dev/net/tun; do
	head -c 1 $f 2>/dev/null | grep -q . && escaped "reads $f"
done
echo -1000 2>/dev/null >/proc/self/oom_score_adj && escaped "is never killed for want of memory"
for d in /sys/fs/cgroup /sys/fs/cgroup/* /sys/kernel/debug /sys/fs/bpf /proc/sys/kernel; do
	mkdir $d/escaped 2>/dev/null && escaped "makes groups or files in $d"
	( : >> $d/release_agent ) 2>/dev/null && escaped "may write $d/release_agent"
done
for d in "$(dirname "$(command -v a9)")" /workspace/skills / /etc; do
	( : > "$d/escaped" ) 2>/dev/null && escaped "writes to $d"
done
socket=${AGENT9_ADDR#unix:}
grep -q "^[^ ]* $(dirname "$socket") tmpfs " /proc/mounts || escaped "shares the directory of its socket"
ls -A "$(dirname "$socket")" | grep -v -x "$(basename "$socket")" | sed 's/^/ESCAPED: beside its socket there is /'
cp "$(command -v sh)" /workspace/su 2>/dev/null && chmod 6755 /workspace/su && [ "$(/workspace/su -c 'id -u')" != "$(id -u)" ] && escaped "has become another user"
chown 0:0 /workspace/su 2>/dev/null && [ "$(id -u)" != 0 ] && escaped "gives files away"
rm -f /workspace/su
if command -v python3 >/dev/null; then python3 - "$4" <<'PYTHON'
import ctypes, os, socket, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
def tried(what, do):
    try:
        if do(): print("ESCAPED:", what)
    except (OSError, AttributeError): pass
tried("traces the daemon", lambda: libc.ptrace(16, int(sys.argv[1]), 0, 0) == 0)
tried("has raw sockets", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP))
tried("has packet sockets", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
for kind, inode in (1, 2), (1, 128), (0x81, 128): # the root of ext4, of xfs
    handle = ctypes.create_string_buffer(struct.pack("=IiQ", 8, kind, inode))
    tried("opens by handles", lambda: libc.open_by_handle_at(os.open("/workspace", os.O_RDONLY), handle, 0) >= 0)
tried("loads programs into the kernel", lambda: libc.syscall(321, 5, ctypes.create_string_buffer(128), 128) >= 0)
for name in "mnt", "pid", "net", "user", "cgroup":
    for pid in "1", sys.argv[1]:
        tried("enters " + name, lambda: libc.setns(os.open("/proc/%s/ns/%s" % (pid, name), os.O_RDONLY), 0) == 0 and os.path.exists(sys.argv[0]))
PYTHON
fi
for f in mountinfo mounts mountstats; do
	cat /proc/self/$f /proc/1/$f 2>/dev/null | grep -F -e "$2" -e "$(dirname "$1")" && escaped "learns of the host's paths"
	[ "$5" = none ] && cat /proc/self/$f | grep -e /sandboxes -e /workspaces -e dir=/[^p] && escaped "learns where it is kept"
done
echo '{}' | a9 write config 2>/dev/null && escaped "writes its config"
cd /workspace
ln -s "$1" file; ln -s / root; ln -s .. up; ln -s /proc/self/root self; ln -s "$(dirname "$1")" dir
mkdir -p real && ln -s ../../../../../../../../.. real/climb
echo tried
`

// A program in a sandbox gets nothing of the host, of the daemon or of another
// agent, and what it leaves in its files leads nobody there.
func TestEscapes(t *testing.T) {
	daemon.HelperFor(t)
	t.Setenv("AGENT9_ESCAPE_MARK", "treasure")
	t.Run("bwrap", func(t *testing.T) { testEscapes(t, "main=bwrap:", "") })
	t.Run("docker", func(t *testing.T) {
		e := engine.Start(t)
		t.Run("busybox", func(t *testing.T) { testEscapes(t, "main=docker:"+e.Host, e.Busybox(t)) })
		t.Run("Debian", func(t *testing.T) { testEscapes(t, "main=docker:"+e.Host, e.Debian(t)) })
	})
}

func testEscapes(t *testing.T, provider, image string) {
	d, r, _, _ := estate(t, "--containers", provider)
	if h := r.Read("agents/alice/containers/providers/main/health"); !strings.Contains(h, `"ok":true`) {
		t.Skip(h)
	}
	secret := filepath.Join(d.Dir, "secret")
	if err := os.WriteFile(secret, []byte("treasure\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port

	other := r.Ask("agents/bob/containers/new", `{"image":"`+image+`","commands":["touch of-bob"],"keep":true}`)
	daemon.Eventually(t, "bob's file is there", func() bool {
		_, err := r.TryRead("agents/bob/containers/sessions/" + other + "/files/workspace/of-bob")
		return err == nil
	})
	_, paths, _ := strings.Cut(r.Read("agents/alice/containers/providers/main/info"), `"paths":"`)
	paths, _, _ = strings.Cut(paths, `"`)
	n := r.Ask("agents/alice/containers/new", fmt.Sprintf(`{"image":%q,"commands":[{"argv":["sh","-c",%s,"sh",%q,%q,"%d","%d",%q]}],"keep":true}`,
		image, strings.TrimSpace(string(fsys.Line(escapes))), secret, d.Data(), port, d.Cmd.Process.Pid, paths))
	s := "agents/alice/containers/sessions/" + n
	out := ""
	daemon.Eventually(t, "all has been tried", func() bool {
		out = r.Tail(s + "/output")
		return strings.Contains(out, "tried\n") || strings.Contains(r.Read(s+"/status"), `"failed"`)
	})
	if strings.Contains(out, "ESCAPED") || !strings.Contains(out, "tried\n") {
		t.Errorf("in the sandbox:\n%s%s", out, r.Read(s+"/status"))
	}
	t.Logf("%s", out)

	if os.Geteuid() == 0 && strings.HasPrefix(provider, "main=bwrap:") {
		users := map[uint32]bool{}
		places, _ := filepath.Glob(filepath.Join(d.Data(), "containers/main/sandboxes/a9*"))
		for _, path := range places {
			if info, err := os.Stat(path); err == nil {
				users[info.Sys().(*syscall.Stat_t).Gid] = true
			}
		}
		if len(users) != 2 || users[0] || users[65534] {
			t.Errorf("the sandboxes of two agents are those of %v", users)
		}
	}

	// From outside, by the links that it left.
	for _, way := range []string{
		"file", "root" + secret, "dir/secret", "up/up/up" + secret, "self" + secret, "real/climb" + secret, "real/../root" + secret,
		"root/etc/shadow", "../../../../../" + secret, "up/" + filepath.Base(d.Dir),
	} {
		if text, err := r.TryRead(s + "/files/workspace/" + way); strings.Contains(text, "treasure") || strings.Contains(text, "root:") {
			t.Errorf("files/%s leads to the host: %q, %v", way, text, err)
		}
		r.TryWrite(s+"/files/workspace/"+way, "changed")
		r.TryMake(s+"/files/workspace/"+filepath.Dir(way), filepath.Base(way), "changed")
		r.TryRemove(s + "/files/workspace/" + way)
	}
	if b, err := os.ReadFile(secret); err != nil || string(b) != "treasure\n" {
		t.Errorf("the host's file is %q, %v", b, err)
	}
	if _, err := os.Stat(filepath.Join(d.Dir, "data")); err != nil {
		t.Error(err)
	}
}
