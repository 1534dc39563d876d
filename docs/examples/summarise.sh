#!/bin/sh -e
# Summarises every message with a model and answers its sender.
read -r trigger
from=$(printf %s "$trigger" | jq -r .message.from)
id=$(printf %s "$trigger" | jq -r .message.id)
text=$(printf %s "$trigger" | jq -r '.message.body | tostring')
summary=$(agentctl ask . "Summarise in one sentence: $text")
printf '%s\n' "$summary" | agentctl put state/latest
[ "$from" = operator ] && exit # who has no inbox
jq -nc --arg to "$from" --arg id "$id" --arg s "$summary" '{to: $to, reply_to: $id, body: $s}' | agentctl put outbox/new
