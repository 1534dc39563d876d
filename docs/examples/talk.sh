#!/bin/sh -e
# Answers a number with one less, until there is none: two agents that talk.
read -r trigger
n=$(printf %s "$trigger" | jq '.message.body | tonumber')
echo "$n" | agentctl put state/heard
[ "$n" -gt 0 ] || exit 0
printf %s "$trigger" | jq -c --arg me "$AGENT9_AGENT" '{to: (if $me == "alice" then "bob" else "alice" end), body: (.message.body - 1)}' | agentctl put outbox/new
