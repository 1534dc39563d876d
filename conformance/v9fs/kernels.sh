#!/bin/bash
# Unpacks Debian kernels that have the 9p file system, for v9fs.sh, without
# installing them and without touching the machine's apt sources.
#
#   kernels.sh [6.1|6.12|7.2]…        (default: all three)
#
# They land in ${XDG_CACHE_HOME:-$HOME/.cache}/agent9/kernels/VERSION, only
# what a guest needs of them. What is there already is left alone and costs no
# network. The archive is the one that this machine's apt uses, and its
# signatures are checked. Exit status 1: a kernel could not be had.
set -euo pipefail
cache=${XDG_CACHE_HOME:-$HOME/.cache}/agent9/kernels
keys=/usr/share/keyrings/debian-archive-keyring.gpg

# whole DIR: a kernel and its 9p modules are there.
whole() { [ -n "$(find "$1" -name 'vmlinuz*' 2>/dev/null)" ] && [ -n "$(find "$1" -name '9pnet.ko*' 2>/dev/null)" ]; }

# fetch VERSION SUITE: the suite's newest kernel of that version. From 7.2 on
# Debian splits an image into a linux-binary and a linux-modules package.
fetch() {
	local version=$1 suite=$2 uri names release package
	cd "$work"
	uri=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep '/debian/\?$' | sort -u | sed 1q)
	[ -n "$uri" ] || { echo "apt knows no Debian archive" >&2; exit 1; }
	mkdir -p lists/partial root
	echo "deb [signed-by=$keys] $uri $suite main" >sources
	local apt=(-q -o Dir::Etc::sourcelist="$PWD/sources" -o Dir::Etc::sourceparts=- -o Dir::State::lists="$PWD/lists"
		-o Dir::State::status=/dev/null -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= -o APT::Sandbox::User=root)
	apt-get "${apt[@]}" update >/dev/null
	names=$(apt-cache "${apt[@]}" pkgnames)
	release=$(sed -nE "s/^linux-(image|binary)-(${version//./\\.}\.[-+.a-z0-9]*-amd64)$/\2/p" <<<"$names" |
		sed '/cloud\|-rt-/d' | sort -Vu | tail -n 1)
	[ -n "$release" ] || { echo "no kernel $version in $suite" >&2; exit 1; }
	for package in "linux-image-$release" "linux-binary-$release" "linux-modules-$release"; do
		grep -qxF -- "$package" <<<"$names" || continue
		apt-get "${apt[@]}" download "$package" >/dev/null
		# tar complains of the patterns that a package has nothing for
		dpkg-deb --fsys-tarfile "$package"_*.deb | tar -x -C root --wildcards \
			'*/vmlinuz*' '*/modules.*' '*/kernel/fs/*' '*/kernel/net/*' '*/kernel/lib/*' \
			'*/kernel/drivers/virtio/*' '*/kernel/drivers/net/*' 2>/dev/null || :
	done
	whole root || { echo "kernel $release has no 9p" >&2; exit 1; }
	mkdir -p "$cache"
	rm -rf "${cache:?}/$version"
	mv root "$cache/$version"
	echo "unpacked the kernel $release into $cache/$version"
}

missing=0 work=
trap '[ -z "$work" ] || rm -rf "$work"' EXIT
[ $# -gt 0 ] || set -- 6.1 6.12 7.2
for version; do
	case $version in
	6.1) suite=bookworm ;;
	6.12) suite=bookworm-backports ;;
	7.2) suite=trixie-backports ;;
	*) echo "usage: kernels.sh [6.1|6.12|7.2]…" >&2; exit 2 ;;
	esac
	! whole "$cache/$version" || continue
	work=$(mktemp -d)
	fetch "$version" "$suite" & # in a subshell that stops at its first error
	wait $! || { echo "kernels.sh: no kernel $version" >&2; missing=1; }
	rm -rf "$work"
done
exit $missing
