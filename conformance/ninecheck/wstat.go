package ninecheck

import (
	"encoding/binary"
	"strings"
)

// untouched is a stat(5) entry that leaves everything as it is.
func untouched() []byte { return newStat("", 1<<64-1) }

// newStat is a stat(5) entry that changes a name or, if it is not ~0, a length.
func newStat(name string, length uint64) []byte {
	const none = 1<<64 - 1
	b := appendFields(nil, statLayout.fields, []any{
		0, uint64(none), uint64(none), qid{0xff, 1<<32 - 1, none},
		uint64(none), uint64(none), uint64(none), length, name, "", "", "",
	})
	binary.LittleEndian.PutUint16(b, uint16(len(b)-2))
	return b
}

// saysNotThere reports whether v9fs or 9pfuse would see in an error text that a
// file does not exist.
func saysNotThere(text string) bool {
	text = strings.ToLower(text)
	for _, words := range []string{"exist", "no such", "not found", "entry"} {
		if strings.Contains(text, words) {
			return true
		}
	}
	return false
}
