#!/bin/bash
# Runs a Docker engine of its own for tests: no bridge, no iptables, nothing of
# this machine's own engine, its configuration or its containers.
#
#   engine.sh DIR [OPTION OF dockerd]…
#
# The engine's socket is DIR/docker.sock; what it logs comes out of stdout.
# Lines on stdin command it: "crash" kills dockerd and nothing else, as a crash
# does, and "start" starts it again. When stdin ends, the engine and all
# containers end, and DIR and their control groups are removed. Needs root,
# dockerd, containerd, runc and unshare.
set -eu
if [ "${1:-}" != inside ]; then
	dir=$1
	group=agent9-engine-$$
	clean() {
		rm -rf --one-file-system "$dir"
		find /sys/fs/cgroup -depth -type d -path "*/$group*" -exec rmdir {} + 2>/dev/null || :
	}
	trap clean EXIT
	mkdir -p "$dir"
	echo '{}' >"$dir/daemon.json"
	# What unshare starts is process 1 of its name space: all others end with
	# it, and the mounts with them.
	unshare --mount --pid --fork --mount-proc --kill-child "$0" inside "$group" "$@" || :
	exit
fi
group=$2 dir=$3
shift 3
mount -t tmpfs -o mode=755 tmpfs /run # containerd's shims listen there, whatever it is told
start() {
	rm -f "$dir/pid"
	dockerd --config-file "$dir/daemon.json" -H "unix://$dir/docker.sock" --pidfile "$dir/pid" \
		--data-root "$dir/data" --exec-root "$dir/exec" --cgroup-parent "/$group" \
		--exec-opt native.cgroupdriver=cgroupfs --bridge none --iptables=false "$@" 2>&1 </dev/null &
	engine=$!
}
start "$@"
while read -r command; do
	case $command in
	crash) kill -KILL $engine ;;
	start) start "$@" ;;
	esac
done
# In order, so that the containers' control groups are let go.
kill -TERM $engine 2>/dev/null && wait $engine || :
