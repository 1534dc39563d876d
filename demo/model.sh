#!/bin/sh
# A program that stands in for a model: it answers the message on its standard
# input, a word at a time, as agentd's exec driver streams it.
read -r question
for word in You asked: "$question" -- and a program of a few lines answers, since no model was found here.; do
	printf '%s ' "$word"
	sleep 0.05
done
echo
