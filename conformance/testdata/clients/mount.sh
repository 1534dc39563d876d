# The tree as files, through any mount. From the test:
#
#	M        the agent's tree, attached as the agent
#	BLOCK    the same tree, for reads that a signal interrupts
#	QUOTA    what an echo says of EDQUOT on this client, INVALID of EINVAL,
#	FULL     and rmdir of ENOTEMPTY
#	READERS  ways to read a stream as it comes: cat dd shell
#	FOLLOW   why tail -f cannot follow here; empty when it can

put() { echo "$2" >"$1"; }
append() { echo "$2" >>"$1"; }
take() { cat "$M/inbox/next"; }
ask() ( # FILE TEXT: a request and its reply on one handle
	exec 3<>"$1" && echo "$2" >&3 && cat <&3
)
have() { command -v "$1" >/dev/null || { skip "$1" "$1 is not here"; return 1; }; }

# --- look around -------------------------------------------------------------
is ls "$(ls "$M" | known)" "$top"
is "ls -lR" "$(ls -lR "$M" 2>&1 >/dev/null)" ""
is find "$(find "$M" -type f -name pubkey)" "$M/identity/pubkey"
has "cat status" "$(cat "$M/status")" "$AGENT"
is "cat pubkey" "$(tr -d '\n' <"$M/identity/pubkey" | wc -c | tr -d ' ')" 64
has "cat README" "$(cat "$M/README")" inbox
! have jq || is jq "$(jq -r type "$M/budget/usage")" object

# --- messages ----------------------------------------------------------------
fine "echo a message" put "$M/inbox/new" "hello $AGENT"
fine "echo another" put "$M/inbox/new" '{"type":"note","body":"second"}'
has "take it" "$(take)" "hello $AGENT"
has "take the other" "$(take)" second
printf 'no newline' >"$M/inbox/new"
has "a message without a newline" "$(take)" "no newline"
long=$(head -c 5000 /dev/zero | tr '\0' x)
fine "a message of many writes" put "$M/inbox/new" "{\"body\":\"$long\"}"
has "take it whole" "$(take)" "$long"
has "a reply on the same handle" "$(ask "$M/inbox/new" '{"id":"id-'$FLAVOR'","body":"x"}')" "id-$FLAVOR"
has "the message of the reply" "$(take)" "id-$FLAVOR\""

# --- ordinary files ----------------------------------------------------------
g=$M/goals
fine "write a goal" put "$g/plan" first
fine "append to it" append "$g/plan" second
is "read it" "$(cat "$g/plan")" "first
second"
is "its length" "$(wc -c <"$g/plan" | tr -d ' ')" 13
is "grep -r" "$(grep -r second "$g")" "$g/plan:second"
fine "sed -i" sed -i s/first/1st/ "$g/plan"
is "what sed wrote" "$(head -n 1 "$g/plan")" 1st
if have vim; then
	fine vim vim -u NONE -es -c '%s/second/2nd/' -c wq "$g/plan"
	is "what vim wrote" "$(tail -n 1 "$g/plan")" 2nd
	is "what vim left" "$(ls -A "$g")" plan
fi
fine "write it anew" put "$g/plan" third
is "the new text" "$(cat "$g/plan")" third
fine cp cp "$g/plan" "$g/copy"
fine "cp -p" cp -p "$g/plan" "$g/kept"
fine cmp cmp "$g/plan" "$g/copy"
head -c 300000 /dev/urandom >"$T/big"
fine "cp of 300 kB" cp "$T/big" "$g/big"
fine "cmp of 300 kB" cmp "$T/big" "$g/big"
append "$g/copy" more
fine "mv over a file" mv "$g/copy" "$g/plan"
is "what mv left" "$(cat "$g/plan")" "third
more"
fine mkdir mkdir "$g/sub"
fine "a file in it" put "$g/sub/part" x
refused "rmdir of a full directory" "$FULL" rmdir "$g/sub"
fine "rm -r" rm -r "$g/sub" "$g/kept" "$g/big"
is "what is left" "$(ls -A "$g")" plan
refused "a file that is not there" 'No such file' cat "$g/absent"

# --- a job, its answer read while the model speaks ------------------------------
submit() {
	job=$(ask "$M/compute/new" "$SPEAK")
	number "$1" "$job"
}
with_cat() { cat "$1"; }
with_dd() { dd if="$1" bs=64k 2>/dev/null; }
with_shell() { while read -r word; do echo "$word"; done <"$1"; }
for reader in $READERS; do
	submit "stream with $reader" || continue
	"with_$reader" "$M/compute/jobs/$job/output" | heard
	all_heard "stream with $reader"
	has "result after $reader" "$(cat "$M/compute/jobs/$job/result")" two
	has "status after $reader" "$(cat "$M/compute/jobs/$job/status")" '"done"'
	is "the whole answer by cat" "$(cat "$M/compute/jobs/$job/output" | tr '\n' ' ')" "ready one two "
done
if [ -n "$FOLLOW" ]; then
	skip "tail -f" "$FOLLOW"
elif submit "tail -f" && output=$M/compute/jobs/$job/output && read -r word <"$output"; then
	# It is begun: of a file without length, tail reads all before it shows any.
	mkfifo "$T/follow"
	tail -f "$output" >"$T/follow" &
	pid=$!
	exec 4<"$T/follow" # held open: tail looks whether somebody reads
	heard two <&4
	kill $pid
	gone $pid
	is "end of tail -f" $? 143
	exec 4<&-
	all_heard "tail -f"
fi
if number "rm -r of a job" "$job" && cat "$M/compute/jobs/$job/result" >/dev/null; then
	fine "rm -r of a job" rm -r "$M/compute/jobs/$job"
	refused "the job that was removed" 'No such file' cat "$M/compute/jobs/$job/status"
fi

# --- refusals fail the echo ------------------------------------------------------
refused "an agent may not write config" 'Permission denied' put "$M/config" '{}'
refused "beyond the budget" "$QUOTA" put "$M/compute/new" '{"messages":[{"role":"user","content":"x"}],"max_cost_microusd":999999999999}'
refused "a bad request" "$INVALID" put "$M/compute/new" '{"messages":"none"}'
refused "bad JSON" "$INVALID" put "$M/compute/new" '{"messages":]}'
while read -r line; do
	case $line in *config*) break ;; esac
done <"$M/logs/errors"
has "the reason is in logs/errors" "$line" config

# --- a blocked read, interrupted ------------------------------------------------
# reading PID: it has inbox/next open and is inside a read(2), or busybox's
# sendfile(2). The kernel tells nobody, so this looks until it is.
reading() {
	while read -r call _ <"/proc/$1/syscall"; do
		case $call$(readlink "/proc/$1/fd/3") in 0*/inbox/next | 40*/inbox/next) return ;; esac
	done 2>/dev/null
}
interrupt() { # SIGNAL STATUS
	cat "$BLOCK/inbox/next" >/dev/null 2>&1 &
	pid=$!
	reading $pid
	has "the tree while a read blocks" "$(cat "$M/status")" "$AGENT"
	from=$(date +%s)
	kill "-$1" $pid
	gone $pid
	is "$1 ends a blocked read" $? "$2"
	took=$(($(date +%s) - from))
	[ $took -lt 10 ] || bad "$1 ends a blocked read" "after $took s"
}
interrupt TERM 143 2>/dev/null
interrupt KILL 137 2>/dev/null
if [ -n "${BASH_VERSION:-}" ]; then
	set -m # else the shell has its children ignore SIGINT
	interrupt INT 130 2>/dev/null
	set +m
fi
fine "a message after that" put "$M/inbox/new" after
has "nothing was lost" "$(take)" after
echo done
