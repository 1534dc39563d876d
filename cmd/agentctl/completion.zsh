#compdef agentctl
# Completion of agentctl for zsh.
_agentctl() {
	local cur=${words[CURRENT]}
	local -a found
	found=("${(@f)$(AGENTCTL_WORD=$cur "${(@)words[1,CURRENT-1]}" --generate-bash-completion 2>/dev/null)}")
	compadd -S '' -- ${(M)found:#*[/:]}
	compadd -- ${found:#*[/:]}
	[[ -n $found ]] || _files
}
compdef _agentctl agentctl
