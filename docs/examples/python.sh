#!/bin/bash
# python.sh DIR PROGRAM URL: runs a Python program without a network, and then
# with one. DIR is the agent's tree.
cd "$1/containers" || exit
for network in false true; do
	request=$(jq -nc --rawfile p "$2" --arg u "$3" --argjson n $network \
		'{files: {"program.py": $p}, commands: [{argv: ["python3", "program.py", $u]}], limits: {network: $n}}')
	exec 3<>new; echo "$request" >&3; read -r n <&3; exec 3>&-
	cat "sessions/$n/stdout"
done
