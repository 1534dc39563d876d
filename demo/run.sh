#!/bin/bash
# Shows an agent's life: create, mount, send, take, ask, watch, account. It
# keeps everything in a temporary folder and leaves nothing behind.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
PATH=$here/../bin:$PATH
dir=$(mktemp -d "${TMPDIR:-/tmp}/agent9-demo.XXXXXX")
export AGENT9_ADDR=unix:$dir/sock
daemon= mounted=
cleanup() {
	status=$?
	trap - EXIT
	[ -z "$mounted" ] || agentctl umount "$mounted" || true
	[ -z "$daemon" ] || { kill "$daemon" && while kill -0 "$daemon" 2>/dev/null; do sleep 0.1; done; }
	[ $status = 0 ] || { echo "The demo failed. The daemon said:"; cat "$dir/log" "$dir/data/agentd.log"; } >&2
	rm -rf "$dir"
	exit $status
}
trap cleanup EXIT
trap 'exit 130' INT TERM

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
# run shows a command as a person would type it in the agent's directory, and
# runs it there.
run() {
	echo "\$ $1"
	bash -c "$1"
}

model=()
if [ -n "${OPENAI_API_KEY:-}" ]; then
	provider="an OpenAI key in OPENAI_API_KEY"
elif [ -n "${OLLAMA_HOST:-}" ]; then
	provider="Ollama at $OLLAMA_HOST"
elif (exec 3<>/dev/tcp/127.0.0.1/11434) 2>/dev/null; then
	provider="a model server at 127.0.0.1:11434"
else
	provider="no model server and no key, so a small program is the model"
	model=(--compute "program=exec:sh $here/model.sh")
fi

say "A daemon in a temporary folder, and an agent called alice"
echo "Compute: $provider."
agentd --background --data "$dir/data" --listen "$AGENT9_ADDR" "${model[@]}" 2>"$dir/log"
daemon=$(sed -n 's/.* as process \([0-9]*\);.*/\1/p' "$dir/log")
run 'agentctl create alice'

if [ -c /dev/fuse ] && mkdir "$dir/alice" && agentctl mount "$dir/alice" alice 2>"$dir/mount.log"; then
	mounted=$dir/alice
	cd "$mounted"
	say "Her files, through a FUSE mount"
	run 'ls'
	say "A message: echo puts it in, cat takes it"
	run "echo 'good morning' > inbox/new"
	run 'cat inbox/next'
	say "A question to a model. The same open file takes the request and gives the job's number; the answer streams"
	run "exec 3<>compute/new; echo 'What is a file?' >&3; read job <&3; exec 3>&-; echo \"job \$job\"; cat compute/jobs/\$job/output"
	say "A goal is an ordinary file"
	run "echo 'learn Plan 9' > goals/first; cat goals/first"
	say "What is refused fails, and says why"
	run "echo '{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"max_cost_microusd\":9000000000}' > compute/new || tail -n 1 logs/errors"
	say "How she is, what it cost, what happened"
	run 'cat status'
	run 'cat budget/usage'
	run 'cat logs/recent'
	cd /
else
	say "There is no /dev/fuse that can be used here, so agentctl stands in for a mount"
	cat "$dir/mount.log" 2>/dev/null || true
	a=agents/alice
	run "agentctl ls $a"
	say "A message: send puts it in, cat takes it"
	run "agentctl send alice 'good morning'"
	run "agentctl cat $a/inbox/next"
	say "A question to a model; the answer streams"
	run "agentctl ask alice 'What is a file?'"
	say "How she is, what it cost, what happened"
	run "agentctl status alice"
	run "agentctl cat $a/budget/usage"
	run "agentctl logs alice"
fi
say "That was agent9. Read README.md next."
