package share

import "agent9/fsys"

// EntryBytes is about what an entry of a listing takes, with the node and the
// Info that are made for it but without its name.
const EntryBytes = 256

// List returns about how many bytes a listing takes.
func List(entries []fsys.Entry) (n int64) {
	for _, e := range entries {
		n += EntryBytes + int64(len(e.Name))
	}
	return n
}
