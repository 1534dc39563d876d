//go:build unix && !linux

package exec

func isFUSE(string) bool { return false }
