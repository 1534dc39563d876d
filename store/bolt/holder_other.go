//go:build !linux

package bolt

// holder would name the process that has locked the file at path; this system
// has no simple way to know.
func holder(string) string { return "" }
