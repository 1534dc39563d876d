# plan9port's 9p, a command for each file. From the test: ADDR, ANAME.

nine() { 9p -a "$ADDR" -A "$ANAME" "$@"; }
put() { echo "$2" | nine write "$1"; }
ask() { echo "$2" | nine rdwr "$1" 2>/dev/null | grep .; }

is ls "$(nine ls / | known)" "$top"
has "ls -l" "$(nine ls -l identity)" pubkey
has "read status" "$(nine read status)" "$AGENT"
has stat "$(nine stat status)" status

fine "write a message" put inbox/new "hello $AGENT"
has "take it" "$(nine read inbox/next)" "hello $AGENT"
has "a reply on the same handle" "$(ask inbox/new '{"id":"one-1","body":"x"}')" one-1
has "the message of the reply" "$(nine read inbox/next)" one-1

fine "create a goal" nine create goals/plan
fine "write it" put goals/plan first
is "read it" "$(nine read goals/plan)" first
fine "write it anew" put goals/plan second
is "the new text" "$(nine read goals/plan)" second
fine "remove it" nine rm goals/plan
refused "a file that is not there" 'not found' nine read goals/plan

job=$(ask compute/new "$SPEAK")
if number stream "$job"; then
	nine read "compute/jobs/$job/output" | heard
	all_heard stream
	has result "$(nine read "compute/jobs/$job/result")" two
fi

refused "an agent may not write config" 'permission denied' put config '{}'
refused "beyond the budget" 'budget exceeded' put compute/new '{"messages":[{"role":"user","content":"x"}],"max_cost_microusd":999999999999}'
refused "a bad request" 'Invalid argument' put compute/new '{"messages":"none"}'

mkfifo "$T/out"
for signal in TERM KILL; do
	job=$(ask compute/new "$HOLD")
	number "$signal ends a blocked read" "$job" || continue
	9p -a "$ADDR" -A "$ANAME" read "compute/jobs/$job/output" >"$T/out" &
	pid=$!
	read -r word <"$T/out"
	is "the first word before $signal" "$word" ready
	kill "-$signal" $pid
	gone $pid
	case $signal$? in
	TERM1 | KILL137) ok "$signal ends a blocked read" ;; # plan9port makes TERM a note, and 9p dies of it
	*) bad "$signal ends a blocked read" "status $?" ;;
	esac
	fine "cancel after $signal" put "compute/jobs/$job/ctl" cancel
	has "cancelled after $signal" "$(nine read "compute/jobs/$job/result" 2>&1; nine read "compute/jobs/$job/status")" '"cancelled"'
done
echo done
