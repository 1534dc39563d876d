#!/bin/bash
# write-and-test.sh DIR TASK: a model writes a shell program, which is tested
# in a sandbox, and written again with what went wrong, until it works. DIR is
# the agent's tree.
cd "$1" || exit
task="$2 Answer with a shell program only."
for try in 1 2 3; do
	exec 3<>compute/new; jq -nc --arg t "$task" '{messages: [{role: "user", content: $t}]}' >&3
	read -r job <&3; exec 3>&-
	jq -c '{files: {"program.sh": .choices[0].message.content}, commands: ["sh program.sh"]}' \
		"compute/jobs/$job/result" >/tmp/request.$$ || exit
	exec 3<>containers/new; cat /tmp/request.$$ >&3; read -r session <&3; exec 3>&-; rm /tmp/request.$$
	cat "containers/sessions/$session/output"
	code=$(jq .exit_code "containers/sessions/$session/result")
	[ "$code" = 0 ] && echo "it works, after $try" && exit
	task="$2 Answer with a shell program only. This did not work: $(tail -n 3 "containers/sessions/$session/stderr")"
done
exit 1
