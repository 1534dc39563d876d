package ninep

import "agent9/fsys"

// A qid is the server's name for a file (intro(5)): path is equal for equal
// files only, version counts changes.
type qid struct {
	Type    uint8
	Version uint32
	Path    uint64
}

// Bits of qid.Type. The same bits, 24 places higher, begin Dir.mode and the
// perm of Tcreate.
const (
	qtDir    = 0x80
	qtAppend = 0x40
	qtExcl   = 0x20
	qtAuth   = 0x08
	qtTmp    = 0x04 // nothing to back up: what a Message is
	qtFile   = 0x00

	dmDir    = qtDir << 24
	dmAppend = qtAppend << 24
	dmExcl   = qtExcl << 24
	dmAuth   = qtAuth << 24
	dmTmp    = qtTmp << 24
)

// qidType tells a client of this program the kind of a file; others see a
// directory, an append-only file, a temporary file or a file.
func qidType(k fsys.Kind) uint8 {
	switch k {
	case fsys.Directory:
		return qtDir
	case fsys.Stream:
		return qtAppend
	case fsys.Message:
		return qtTmp
	}
	return qtFile
}

// kindOf is the inverse of qidType.
func kindOf(t uint8) fsys.Kind {
	switch {
	case t&qtDir != 0:
		return fsys.Directory
	case t&qtAppend != 0:
		return fsys.Stream
	case t&qtTmp != 0:
		return fsys.Message
	}
	return fsys.File
}
