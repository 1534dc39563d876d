//go:build linux && (amd64 || arm64)

package bwrap

import (
	"bytes"
	"encoding/binary"
	"runtime"

	"golang.org/x/sys/unix"
)

// denied are the calls that no program in a sandbox needs and that have let
// programs out of sandboxes: they fail with EPERM, as in Docker's own filter.
// What needs a capability fails without this too, but then in code that is
// reached.
var denied = append([]uint32{
	unix.SYS_ACCT, unix.SYS_ADD_KEY, unix.SYS_ADJTIMEX, unix.SYS_BPF, unix.SYS_CLOCK_ADJTIME,
	unix.SYS_CLOCK_SETTIME, unix.SYS_DELETE_MODULE, unix.SYS_FANOTIFY_INIT, unix.SYS_FINIT_MODULE,
	unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSOPEN, unix.SYS_FSPICK, unix.SYS_INIT_MODULE,
	unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER, unix.SYS_IO_URING_SETUP,
	unix.SYS_KEXEC_FILE_LOAD, unix.SYS_KEXEC_LOAD, unix.SYS_KEYCTL, unix.SYS_MOUNT,
	unix.SYS_MOUNT_SETATTR, unix.SYS_MOVE_MOUNT, unix.SYS_NFSSERVCTL,
	unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_OPEN_TREE, unix.SYS_PERF_EVENT_OPEN, unix.SYS_PIVOT_ROOT,
	unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD, unix.SYS_REBOOT, unix.SYS_REQUEST_KEY, unix.SYS_SETDOMAINNAME,
	unix.SYS_SETHOSTNAME, unix.SYS_SETNS, unix.SYS_SETTIMEOFDAY, unix.SYS_SWAPOFF, unix.SYS_SWAPON,
	unix.SYS_SYSLOG, unix.SYS_UMOUNT2, unix.SYS_USERFAULTFD, unix.SYS_VHANGUP,
}, deniedHere...)

// families are the kinds of socket that a sandbox may make. Others, such as AF_VSOCK,
// know nothing of network namespaces and lead to the machine below.
var families = []uint32{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK}

const (
	argArch = 4
	arg0    = 16 // the low half, on a little-endian machine
	arg1    = 24
)

// filter returns the program for seccomp(2), as struct sock_filter in the
// machine's order.
func filter() []byte {
	var f assembler
	f.load(argArch)
	f.unless(auditArch, refuse(unix.ENOSYS))
	f.load(0)
	if runtime.GOARCH == "amd64" {
		f.atLeast(1<<30, refuse(unix.ENOSYS)) // x32
	}
	for _, call := range denied {
		f.when(call, refuse(unix.EPERM))
	}
	// What clone3 is for cannot be seen here; C libraries then use clone.
	f.when(unix.SYS_CLONE3, refuse(unix.ENOSYS))
	f.in(unix.SYS_CLONE, arg0, func(f *assembler) { f.anyBit(unix.CLONE_NEWUSER, refuse(unix.EPERM)) })
	f.in(unix.SYS_UNSHARE, arg0, func(f *assembler) { f.anyBit(unix.CLONE_NEWUSER, refuse(unix.EPERM)) })
	f.in(unix.SYS_IOCTL, arg1, func(f *assembler) {
		f.when(unix.TIOCSTI, refuse(unix.EPERM))
		f.when(unix.TIOCLINUX, refuse(unix.EPERM))
	})
	for _, call := range []uint32{unix.SYS_SOCKET, unix.SYS_SOCKETPAIR} {
		f.in(call, arg0, func(f *assembler) {
			for _, family := range families {
				f.when(family, unix.SECCOMP_RET_ALLOW)
			}
			f.ret(refuse(unix.EAFNOSUPPORT))
		})
	}
	f.ret(unix.SECCOMP_RET_ALLOW)
	var out bytes.Buffer
	binary.Write(&out, binary.NativeEndian, f.code)
	return out.Bytes()
}

func refuse(err unix.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(err) }

// assembler writes a classic BPF program. Its jumps are all forward and short.
type assembler struct{ code []unix.SockFilter }

func (f *assembler) add(code uint16, jt, jf uint8, k uint32) {
	f.code = append(f.code, unix.SockFilter{Code: code, Jt: jt, Jf: jf, K: k})
}

// load loads the word at offset of struct seccomp_data.
func (f *assembler) load(offset uint32) { f.add(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, 0, 0, offset) }

func (f *assembler) ret(verdict uint32) { f.add(unix.BPF_RET|unix.BPF_K, 0, 0, verdict) }

// when ends with verdict if what is loaded is k; unless, if it is not.
func (f *assembler) when(k, verdict uint32) {
	f.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, 0, 1, k)
	f.ret(verdict)
}

func (f *assembler) unless(k, verdict uint32) {
	f.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, 1, 0, k)
	f.ret(verdict)
}

func (f *assembler) atLeast(k, verdict uint32) {
	f.add(unix.BPF_JMP|unix.BPF_JGE|unix.BPF_K, 0, 1, k)
	f.ret(verdict)
}

func (f *assembler) anyBit(k, verdict uint32) {
	f.add(unix.BPF_JMP|unix.BPF_JSET|unix.BPF_K, 0, 1, k)
	f.ret(verdict)
}

// in judges the argument at offset of one call; what it does not decide is
// allowed. The number of the call stays loaded for what follows.
func (f *assembler) in(call, offset uint32, judge func(*assembler)) {
	var body assembler
	body.load(offset)
	judge(&body)
	body.ret(unix.SECCOMP_RET_ALLOW)
	f.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, 0, uint8(len(body.code)), call)
	f.code = append(f.code, body.code...)
}
