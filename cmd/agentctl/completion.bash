# Completion of agentctl for bash.
_agentctl() {
	local IFS=$' \t\n' cur= words found before=
	read -ra words <<<"${COMP_LINE:0:COMP_POINT}"
	if [[ ${COMP_LINE:COMP_POINT-1:1} != [[:space:]] ]]; then
		cur=${words[-1]}
		unset 'words[-1]'
	fi
	# Readline has its own idea of a word, which a colon ends.
	if [[ $COMP_WORDBREAKS == *:* && $cur == *:* ]]; then
		before=${cur%"${cur##*:}"}
	fi
	IFS=$'\n'
	COMPREPLY=()
	for found in $(AGENTCTL_WORD=$cur "${words[@]}" --generate-bash-completion 2>/dev/null); do
		[[ $found == "$cur"* ]] || continue
		[[ $found == *[/:] ]] || found+=' '
		COMPREPLY+=("${found#"$before"}")
	done
}
complete -o nospace -o default -F _agentctl agentctl
