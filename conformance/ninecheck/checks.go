package ninecheck

import "slices"

// checks has all of them, in the order in which they are run.
func checks() []Check {
	return slices.Concat(
		versionChecks, attachChecks, fidChecks, tagChecks, walkChecks,
		readChecks, dirChecks, attrChecks, flushChecks,
		createChecks, writeChecks, renameChecks, removeChecks, lockChecks,
		streamChecks, hostileChecks,
	)
}

// Checks returns every check there is, for people.
func Checks() []Check { return append([]Check{versionAnswered, versionRefused}, checks()...) }
