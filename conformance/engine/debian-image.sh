#!/bin/bash
# Makes a root file system of Debian with python3 and git, for tests of
# sandboxes, of the packages of this machine's own apt archive:
# ${XDG_CACHE_HOME:-$HOME/.cache}/agent9/images/debian.tar. One that is there
# is left alone. Needs root and debootstrap.
set -euo pipefail
to=${XDG_CACHE_HOME:-$HOME/.cache}/agent9/images
[ ! -s "$to/debian.tar" ] || exit 0
[ "$(id -u)" = 0 ] || { echo "debian-image.sh: only root can make it" >&2; exit 1; }
archive=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep '/debian/\?$' | sort -u | sed 1q)
[ -n "$archive" ] || { echo "debian-image.sh: apt knows no Debian archive" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT
chmod 755 "$work"
debootstrap --variant=minbase --include=python3,git,ca-certificates bookworm "$work/root" "$archive" >"$work/log" 2>&1 ||
	{ tail -n 5 "$work/log" >&2; exit 1; }
rm -rf "$work"/root/var/cache/apt/* "$work"/root/var/lib/apt/lists/* "$work"/root/usr/share/{doc,man,locale}
mkdir -p "$to"
tar -C "$work/root" --exclude='./dev/*' --exclude='./proc/*' --exclude='./sys/*' -cf "$to/debian.tar.$$" .
mv "$to/debian.tar.$$" "$to/debian.tar"
echo "made $to/debian.tar"
