#!/bin/bash
# Runs a shell script against a 9P server on this host's loopback, through the
# Linux kernel's own 9P client (v9fs), in a small QEMU guest that boots in
# seconds. Nothing of the host's kernel is used.
#
#   v9fs.sh [-k KERNEL] [-p PORT] [-a ANAME] [-o OPTIONS] [-x PROGRAMS] [-t SECONDS] [-v] SCRIPT|-
#
#   -k KERNEL    6.1 (default), 6.12 or 7.2 as unpacked by kernels.sh, or a
#                directory with boot/ and lib/modules/
#   -p PORT      the server, 127.0.0.1:PORT here and 10.0.2.2:PORT in the
#                guest, is mounted at $M; 0 (default): the script mounts
#   -a ANAME     what to attach to
#   -o OPTIONS   mount options, default version=9p2000.L,msize=65536,access=any
#   -x PROGRAMS  programs of this host ("bash cat tail") to put, with their
#                libraries, into the guest's /x
#   -t SECONDS   give up after this long (default 120)
#   -v           show the guest's whole console
#
# SCRIPT is run by busybox's sh in /tmp of the guest with busybox's programs on
# PATH ('-': it is read from stdin). Its output, stdout and stderr, appears here
# as it comes. Exit status: the script's; 97 the mount failed, 98 the guest said
# nothing, 99 this machine lacks something, 124 it took too long.
#
# Needs qemu-system-x86 busybox-static cpio kmod xz-utils zstd. The guest's
# base and kernel are kept in ${XDG_CACHE_HOME:-$HOME/.cache}/agent9/v9fs.
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin
cache=${XDG_CACHE_HOME:-$HOME/.cache}/agent9
kernel=6.1 port=0 aname= options=version=9p2000.L,msize=65536,access=any programs= limit=120 verbose=
die() { echo "v9fs.sh: $*" >&2; exit 99; }
while getopts k:p:a:o:x:t:v f; do case $f in
	k) kernel=$OPTARG ;; p) port=$OPTARG ;; a) aname=$OPTARG ;; o) options=$OPTARG ;;
	x) programs=$OPTARG ;; t) limit=$OPTARG ;; v) verbose=1 ;; *) exit 99 ;;
esac; done
shift $((OPTIND - 1))
[ $# = 1 ] || die "one script, please"
for c in qemu-system-x86_64 busybox cpio modinfo xz zstd; do command -v $c >/dev/null || die "no $c"; done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 143' TERM INT HUP

# The newest kernel below the directory that has 9p: its release, image, modules.
root=$kernel release=
[ -d "$root" ] || root=$cache/kernels/$kernel
for lib in lib usr/lib; do
	for r in $(ls "$root/$lib/modules" 2>/dev/null | sort -V); do
		ls "$root/$lib/modules/$r"/kernel/net/9p/9pnet.ko* >/dev/null 2>&1 || continue
		for image in "$root/boot/vmlinuz-$r" "$root/$lib/modules/$r/vmlinuz"; do
			[ ! -r "$image" ] || { release=$r packed=$image modules=$root/$lib/modules/$r/kernel; break; }
		done
	done
done
[ -n "$release" ] || die "no kernel $kernel with 9p (kernels.sh unpacks one)"

# --- the guest's base: busybox, the modules that 9p needs, and init ------------
base=$cache/v9fs/base-$release-$(cksum <"${BASH_SOURCE[0]}" | tr ' ' -).cpio
if [ ! -s "$base" ]; then
	mkdir -p "$(dirname "$base")" "$work/base"/{bin,dev,proc,sys,m,tmp,etc,mod}
	b=$work/base
	cp "$(command -v busybox)" "$b/bin/busybox"
	ln -s busybox "$b/bin/sh"
	: >"$b/mod/order"
	add() { # a module, after those that it depends on; what has no file is built in
		local name=$1 file needs
		! grep -qx "$name" "$b/mod/order" || return 0
		file=$(find "$modules" \( -name "${name//-/_}.ko*" -o -name "${name//_/-}.ko*" \) -print -quit)
		[ -n "$file" ] || return 0
		for needs in $(modinfo -F depends "$file" | tr , ' '); do add "$needs"; done
		case $file in
		*.xz) xz -dc "$file" ;; *.zst) zstd -dcq "$file" ;; *) cat "$file" ;;
		esac >"$b/mod/$name.ko"
		echo "$name" >>"$b/mod/order"
	}
	for m in virtio_pci virtio_net 9pnet_fd 9p; do add $m; done
	cat >"$b/init" <<'INIT'
#!/bin/sh
/bin/busybox --install -s /bin
export PATH=/bin HOME=/tmp M=/m
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
ln -s /proc/self/fd /dev/fd
mkdir -p /dev/shm; mount -t tmpfs tmp /tmp
for m in $(cat /mod/order); do insmod /mod/$m.ko || echo "insmod $m failed"; done
ifconfig lo 127.0.0.1 up
i=0; while [ ! -e /sys/class/net/eth0 ] && [ $i -lt 500 ]; do usleep 20000; i=$((i+1)); done
ifconfig eth0 10.0.2.15 netmask 255.255.255.0 up
. /run.env
echo "V9FS-BEGIN $(uname -r)"
rc=0
if [ "$PORT" != 0 ]; then
	timeout -s KILL 60 mount -t 9p -o "trans=tcp,port=$PORT,$OPTIONS" 10.0.2.2 $M ||
		{ rc=97; dmesg | grep -i '9p' | grep -v Installing; }
fi
if [ $rc = 0 ]; then
	(cd /tmp; sh /run.sh) </dev/null 2>&1; rc=$?
	cd /; [ "$PORT" = 0 ] || umount $M || umount -l $M
fi
echo "V9FS-EXIT $rc"
poweroff -f
INIT
	chmod 755 "$b/init"
	(cd "$b" && find . | cpio -o -H newc --quiet) >"$work/base.cpio"
	cp "$work/base.cpio" "$base.$$" && mv "$base.$$" "$base"
fi

# --- the kernel unpacked: it boots 5 s sooner when QEMU emulates ---------------
vmlinux=$cache/v9fs/vmlinux-$release
if [ ! -s "$vmlinux" ]; then
	unpack() { # MAGIC COMMAND: the ELF file behind the first MAGIC that has one
		local at
		for at in $(LC_ALL=C grep -abo -P "$1" "$packed" | cut -d: -f1); do
			tail -c+$((at + 1)) "$packed" | $2 >"$work/vmlinux" 2>/dev/null || :
			[ "$(head -c4 "$work/vmlinux" | tail -c3)" = ELF ] || continue
			cp "$work/vmlinux" "$vmlinux.$$" && mv "$vmlinux.$$" "$vmlinux"
			return 0
		done
		return 1
	}
	unpack '\xFD7zXZ\x00' 'xz -dc --single-stream' || unpack '\x28\xB5\x2F\xFD' 'zstd -dcq' || vmlinux=$packed
fi

# --- this run's part, unpacked by the guest over the base ----------------------
run=$work/run
mkdir "$run"
cat "$1" >"$run/run.sh"
[ -z "$aname" ] || options=$options,aname=$aname
printf "PORT='%s'\nOPTIONS='%s'\n" "$port" "$options" >"$run/run.env"
for p in $programs; do
	file=$(type -P "$p") || die "no $p"
	mkdir -p "$run/x"
	cp -L "$file" "$run/x/$p"
	for l in $(ldd "$file" 2>/dev/null | grep -o '/[^ ]*'); do
		mkdir -p "$run$(dirname "$l")"
		[ -e "$run$l" ] || cp -L "$l" "$run$l"
	done
done
(cd "$run" && find . | cpio -o -H newc --quiet) | cat "$base" - >"$work/initrd"

# KVM is not asked for: on machines that are guests themselves it can hang.
qemu=(qemu-system-x86_64 -M q35,accel=tcg -cpu qemu64 -m 256 -smp 1 -nodefaults -no-user-config -no-reboot
	-display none -monitor none -serial stdio
	-netdev user,id=n0 -device virtio-net-pci,netdev=n0,romfile=
	-kernel "$vmlinux" -initrd "$work/initrd"
	-append "console=ttyS0 $([ -n "$verbose" ] || echo loglevel=1) panic=-1 tsc=reliable mitigations=off")
show='/^V9FS-BEGIN/,/^V9FS-EXIT/{/^V9FS-/d; p}'
[ -z "$verbose" ] || show=p
rc=0
timeout --foreground "$limit" "${qemu[@]}" </dev/null 2>"$work/err" | sed -un "s/\r//g; w $work/console
	$show" || rc=$?
if said=$(grep -a -o '^V9FS-EXIT [0-9]*' "$work/console"); then exit "${said#* }"; fi
cat "$work/err" >&2
tail -n 20 "$work/console" | sed 's/^/console: /' >&2
[ $rc != 124 ] || exit 124
exit 98
