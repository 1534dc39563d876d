//go:build unix

// Package proctree ends commands that a daemon has started, with all that they
// started in turn, also after the daemon was killed: every command has a
// variable in its environment that says whose it is. Only Linux shows that
// variable to others; elsewhere a command's process group is all that is found.
package proctree

// Var is the variable. Its value begins with what [Owner] returns.
const Var = "AGENT9_RUN"
