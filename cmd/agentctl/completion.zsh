#compdef agentctl
# Completion of agentctl for zsh.
_agentctl() {
	local cur=${words[CURRENT]}
	local -a line found
	line=("${(@)words[1,CURRENT-1]}")
	[[ $cur == -* ]] && line+=("$cur")
	found=("${(@f)$(SHELL=sh AGENTCTL_WORD=$cur "${(@)line}" --generate-bash-completion 2>/dev/null)}")
	compadd -S '' -- ${(M)found:#*/}
	compadd -- ${found:#*/}
}
compdef _agentctl agentctl
