#!/bin/bash
# answer.sh DIR: answers what comes into an agent's inbox with a model, until
# the agent's budget is gone. DIR is the agent's tree.
cd "$1" || exit
while message=$(cat inbox/next) && [ -n "$message" ]; do
	exec 3<>compute/new || break # EDQUOT: nothing is left
	jq -c '{messages: [{role: "user", content: (.body | tostring)}]}' <<<"$message" >&3 || break
	read -r job <&3; exec 3>&-
	jq -c --argjson m "$message" '{to: $m.from, reply_to: $m.id, body: .choices[0].message.content}' \
		"compute/jobs/$job/result" >outbox/new
done 2>/dev/null
echo "I stop: $(tail -n 1 logs/errors | jq -r .reason)"
