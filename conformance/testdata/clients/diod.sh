# The clients of diod, which only read. From the test: SERVER, ANAME, and a
# message that waits, and the jobs SPEAKING and HELD, which are under way.

ls_() { diodls -s "$SERVER" -a "$ANAME" "$@"; }
cat_() { diodcat -s "$SERVER" -a "$ANAME" "$@"; }

is diodls "$(ls_ | known)" "$top"
has "diodls -l" "$(ls_ -l)" status
has "diodcat status" "$(cat_ status)" "$AGENT"
has "diodcat two files" "$(cat_ status identity/pubkey | tail -n 1 | wc -c)" 65
has "take a message" "$(cat_ inbox/next)" "hello $AGENT"

cat_ "compute/jobs/$SPEAKING/output" | heard
all_heard stream
has result "$(cat_ "compute/jobs/$SPEAKING/result")" two

refused "a file that is not there" 'No such file' cat_ goals/absent
refused "an attach without a right" 'Permission denied' diodcat -s "$SERVER" -a /agents status
has "diod's own ctl tree" "$(dioddate -s "$SERVER" 2>&1)" "Permission denied"

mkfifo "$T/out"
for signal in TERM KILL; do
	diodcat -s "$SERVER" -a "$ANAME" "compute/jobs/$HELD/output" >"$T/out" &
	pid=$!
	read -r word <"$T/out"
	is "the first word before $signal" "$word" ready
	kill "-$signal" $pid
	gone $pid
	is "$signal ends a blocked read" "$(kill -l $?)" "$signal"
done
echo done
