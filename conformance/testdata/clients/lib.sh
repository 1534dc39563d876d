# What the scripts of all shell clients share: bash, dash and busybox sh run it.
# A script tells the test that runs it how it goes, a line for each thing:
#
#	ok NAME   not ok NAME: WHY   skip NAME: WHY     a step
#	saw WORD      this word of the model's answer is here; the model is
#	              given leave to say the next one only now
#	done          the script is at its end
#
# From the test: AGENT, the agent's name, and two requests to the model. It
# answers SPEAK with "ready", "one", "two", a line each, and HOLD with "ready"
# and then silence. FLAVOR, if any, goes before the names of the steps.
export LC_ALL=C
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT

ok() { echo "ok ${FLAVOR:+$FLAVOR }$1"; }
bad() { echo "not ok ${FLAVOR:+$FLAVOR }$1: $2"; }
skip() { echo "skip ${FLAVOR:+$FLAVOR }$1: $2"; }

is() { # NAME GOT WANT
	if [ "$2" = "$3" ]; then ok "$1"; else bad "$1" "got '$2', want '$3'"; fi
}

has() { # NAME GOT PART
	case $2 in *"$3"*) ok "$1" ;; *) bad "$1" "no '$(printf %.200s "$3")' in '$(printf %.200s "$2")'" ;; esac
}

fine() { # NAME COMMAND…: succeeds and says nothing
	name=$1
	shift
	if said=$("$@" 2>&1) && [ -z "$said" ]; then ok "$name"; else bad "$name" "$said"; fi
}

refused() { # NAME PATTERN COMMAND…: fails, with an error of this pattern
	name=$1 pattern=$2
	shift 2
	if said=$("$@" 2>&1); then
		bad "$name" "was not refused: '$said'"
	elif echo "$said" | grep -qE "$pattern"; then
		ok "$name"
	else
		bad "$name" "'$said' has no '$pattern'"
	fi
}

heard() { # stdin: the answer, shown to the test word by word as it comes
	: >"$T/words"
	while read -r word; do
		echo "$word" >>"$T/words"
		echo "saw $word"
		[ "$word" != "${1:-}" ] || break
	done
}

all_heard() { is "$1" "$(tr '\n' ' ' <"$T/words")" "ready one two "; }

gone() { wait "$1" 2>/dev/null; } # PID: its status, without the shell's word on how it died

number() { # NAME REPLY: a job's number came back
	case $2 in
	'' | *[!0-9]*) bad "$1" "the reply was '$2'"; return 1 ;;
	esac
}

# What stands at the top of every agent's tree, and the part of a listing that does.
top="README budget compute config ctl deadletter goals identity inbox logs mounts outbox status "
known() { grep -xE "$(echo $top | tr ' ' '|')" | sort -u | tr '\n' ' '; }
