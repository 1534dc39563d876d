#!/bin/bash
# Gets what the full test run needs besides Go: Debian packages, installed with
# apt-get when this is root on Debian, and in ${XDG_CACHE_HOME:-$HOME/.cache}/agent9
# the 6.1 kernel for the v9fs tests and an image for sandboxes. Says what it does, does
# nothing that is done already, and never fails: what cannot be had is named
# with the tests that will be skipped. DEPS=no: install and fetch nothing.
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# One line per purpose: packages, then what is skipped without them.
needs='
qemu-system-x86 busybox-static cpio kmod xz-utils zstd: the kernel'\''s own 9P client (v9fs) in a guest
fuse3: mounts with FUSE
diod: diodls, diodcat and the other clients of diod
jq vim-tiny: jq and vim on mounted files
git rsync: git and rsync on mounted files
attr: extended attributes on mounted files
bubblewrap: sandboxes by bubblewrap
docker.io containerd runc iptables busybox-static xfsprogs: sandboxes of a container engine
debootstrap: an image with python3 and git for sandboxes
chromium: the web page in a browser
systemd: the units in init, read by systemd-analyze
gcc libc6-dev: the race detector'

installed() { # PACKAGE; a full vim does for vim-tiny
	local p
	for p in "$1" ${1%-tiny}; do
		[ "$(dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null)" = installed ] && return 0
	done
	return 1
}
missing() { local p; for p; do installed "$p" || echo "$p"; done; }

if ! command -v dpkg-query >/dev/null || ! grep -qs '^ID=debian' /etc/os-release; then
	echo "deps: not Debian, nothing is installed; each test says what it lacks"
	exit 0
fi
want=$(missing $(sed 's/:.*//' <<<"$needs"))
why=
[ "${DEPS:-}" != no ] || why="DEPS=no"
[ "$(id -u)" = 0 ] || why="not root"
if [ -n "$want" ] && [ -z "$why" ]; then
	echo "deps: installing for the full test run (DEPS=no prevents it):" $want
	export DEBIAN_FRONTEND=noninteractive
	apt-get -q update >/dev/null 2>&1
	if ! apt-get -q install -y --no-install-recommends $want >/dev/null 2>&1; then
		for p in $want; do # all but the one that cannot be had
			apt-get -q install -y --no-install-recommends "$p" 2>&1 >/dev/null | sed 's/^/deps: /'
		done
	fi
fi
while IFS=: read -r packages purpose; do
	lack=$(missing $packages)
	[ -z "$lack" ] || echo "deps: not installed${why:+ ($why)}:" $lack "- skipped:$purpose"
done <<<"${needs#?}"

if [ "${DEPS:-}" != no ] && [ -z "$(missing qemu-system-x86)" ]; then
	"$here/v9fs/kernels.sh" 6.1 2>&1 | sed 's/^/deps: /'
fi
if [ "${DEPS:-}" != no ] && [ -z "$(missing debootstrap)" ]; then
	"$here/engine/debian-image.sh" 2>&1 | sed 's/^/deps: /'
fi
exit 0
