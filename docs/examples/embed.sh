#!/bin/bash
# embed.sh DIR FILE...: writes the embedding of each file beside it, as FILE.vec.
# DIR is the agent's tree.
agent=$1; shift
for file; do
	exec 3<>"$agent/compute/new"
	jq -nc --rawfile text "$file" '{model: "text-embedding-3-small", input: $text}' >&3 || exit
	read -r job <&3; exec 3>&-
	jq -c '.data[0].embedding' "$agent/compute/jobs/$job/result" >"$file.vec"
done
