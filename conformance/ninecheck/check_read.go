package ninecheck

import (
	"bytes"
	"slices"
)

var readChecks = []Check{
	{
		Name: "read/counts",
		Says: "read(5): up to count bytes from offset on; the same file read in other pieces is the same",
		need: needFile,
		run: func(t *trial) {
			c := t.session()
			fid := c.opened(modeRead, c.file...)
			whole := c.readAll(fid, 4096)
			if n := uint64(len(whole)); n != c.length {
				c.errorf("the status says %d bytes and %d can be read", c.length, n)
			}
			head := whole[:min(len(whole), 500)]
			var pieces []byte
			for len(pieces) < len(head) {
				b := c.must("Tread", fid, len(pieces), 7).data("data")
				if len(b) == 0 || len(b) > 7 {
					c.fatalf("%d bytes where 7 were asked for and more are there", len(b))
				}
				pieces = append(pieces, b...)
			}
			if !bytes.HasPrefix(pieces, head) {
				c.errorf("in pieces of 7 bytes the file is another one")
			}
			if b := c.must("Tread", fid, 0, 0).data("data"); len(b) != 0 {
				c.errorf("%d bytes where none were asked for", len(b))
			}
		},
	},
	{
		Name: "read/end",
		Says: "read(5): at and beyond the end of the file the count is zero",
		need: needFile,
		run: func(t *trial) {
			c := t.session()
			fid := c.opened(modeRead, c.file...)
			end := len(c.readAll(fid, 4096))
			for _, offset := range []int{end, end + 1, end + 1<<20, 1<<62 + end} {
				if m := c.ask("Tread", fid, offset, 100); !m.isError() && len(m.data("data")) > 0 {
					c.errorf("%d bytes at %d, where the file has %d", len(m.data("data")), offset, end)
				} else if m.isError() && offset < 1<<40 {
					c.errorf("a read at %d of a file of %d bytes is refused", offset, end)
				}
			}
		},
	},
	{
		Name: "read/msize",
		Says: "version(5): no message is longer than msize, whatever count a read asks for",
		need: needFile,
		run: func(t *trial) {
			c := t.session()
			fid := c.opened(modeRead, c.file...)
			for _, count := range []uint32{c.msize, 1 << 20, 1<<31 - 1, 1<<32 - 1} {
				c.ask("Tread", fid, 0, count) // recv judges the size
			}
			dir := c.opened(modeRead)
			c.readDir(dir, 0, 1<<32-1)
		},
	},
	{
		Name: "read/unopened",
		Says: "read(5): the fid must be open for reading",
		need: needFile,
		run: func(t *trial) {
			c := t.session()
			fid := c.at(c.file...)
			c.refused("the fid is not open", "Tread", fid, 0, 10)
			if m := c.readDir(c.at(), 0, 4000); !m.isError() {
				c.errorf("a directory that is not open can be read")
			}
		},
	},
	{
		Name: "open/iounit",
		Says: "open(5), read(5): iounit, if not zero, is what one message can carry; so it fits msize",
		need: needFile,
		run: func(t *trial) {
			c := t.session()
			m := c.open(c.at(c.file...), modeRead)
			if m.isError() {
				c.fatalf("the file cannot be opened: %s", m)
			}
			if n := m.num("iounit"); n > uint64(c.msize) {
				c.errorf("iounit is %d and msize %d", n, c.msize)
			}
		},
	},
	{
		Name: "open/directory",
		Says: "open(5): it is illegal to write a directory or truncate it",
		run: func(t *trial) {
			c := t.session()
			for _, mode := range []int{modeWrite, modeRdWr, c.truncating(modeWrite)} {
				if m := c.open(c.at(), mode); !m.isError() {
					c.errorf("a directory can be opened with mode %#x", mode)
				}
			}
		},
	},
}

var dirChecks = []Check{
	{
		Name: "dir/entries",
		Says: "read(5), stat(5), protocol.md readdir: each entry once, whole, with the qid that a walk to its name gives",
		run: func(t *trial) {
			c := t.session()
			list, err := c.listAll(c.opened(modeRead, c.dir...), 4000)
			if err != nil {
				c.fatalf("the directory cannot be read: %v", err)
			}
			seen := map[string]bool{}
			for i, e := range list {
				if e.name == "." || e.name == ".." {
					continue // of 9P2000.L; their qids are anybody's
				}
				if seen[e.name] {
					c.errorf("%q is there twice", e.name)
				}
				seen[e.name] = true
				if i > 50 {
					continue
				}
				fid := c.newFid()
				m := c.ask("Twalk", 0, fid, append(append([]string{}, c.dir...), e.name))
				if m.isError() || len(m.qids()) != len(c.dir)+1 {
					c.errorf("%q is listed and cannot be walked to", e.name)
					continue
				}
				if q := m.qids()[len(c.dir)]; !q.same(e.qid) {
					c.errorf("%q is %v in the directory and %v in a walk", e.name, e.qid, q)
				}
				c.clunk(fid)
			}
		},
	},
	{
		Name: "dir/pieces",
		Says: "read(5), protocol.md readdir: a directory can be read with a small count, going on where the reply before ended; entries are not cut, lost or repeated",
		run: func(t *trial) {
			c := t.session()
			whole, err := c.listAll(c.opened(modeRead), 8000)
			if err != nil {
				c.fatalf("the root cannot be read: %v", err)
			}
			for _, count := range []int{512, 1000} {
				part, err := c.listAll(c.opened(modeRead), count)
				if err != nil {
					c.errorf("with a count of %d: %v", count, err)
				} else if !slices.Equal(names(part), names(whole)) {
					c.errorf("with a count of %d the directory has %d entries, in another order or not the same as the %d with 8000", count, len(part), len(whole))
				}
			}
		},
	},
	{
		Name: "dir/tiny",
		Says: "read(5): an integral number of entries; where count is too small for one, an error or nothing, not a part of it",
		run: func(t *trial) {
			c := t.session()
			fid := c.opened(modeRead)
			for _, count := range []int{0, 1, 10} {
				if m := c.readDir(fid, 0, count); !m.isError() && len(m.data("data")) > 0 {
					c.errorf("%d bytes of an entry for a count of %d", len(m.data("data")), count)
				}
			}
		},
	},
	{
		Name: "dir/again",
		Says: "read(5): offset zero begins the directory again; at its end a read gives nothing, as often as it is asked",
		run: func(t *trial) {
			c := t.session()
			fid := c.opened(modeRead)
			first, err := c.listAll(fid, 4000)
			if err != nil {
				c.fatalf("the root cannot be read: %v", err)
			}
			second, err := c.listAll(fid, 4000)
			if err != nil || !slices.Equal(names(first), names(second)) {
				c.errorf("read again from offset 0 the directory is %q, not %q (%v)", names(second), names(first), err)
			}
			end := uint64(0)
			if len(second) > 0 {
				for m := c.readDir(fid, 0, 4000); ; m = c.readDir(fid, end, 4000) {
					if m.isError() {
						c.fatalf("a read where the one before ended: %s", m)
					}
					list, next := c.entries(m, end)
					if end = next; len(list) == 0 {
						break
					}
				}
			}
			if m := c.readDir(fid, end, 4000); !m.isError() && len(m.data("data")) > 0 {
				c.errorf("after its end the directory goes on")
			} else if m.isError() {
				c.errorf("a second read at the end of the directory is refused")
			}
		},
	},
	{
		Name: "dir/seek",
		Says: "read(5): an offset that is neither zero nor where the read before ended is illegal; whatever the answer, it has whole entries",
		only: Plan9,
		run: func(t *trial) {
			c := t.session()
			fid := c.opened(modeRead)
			c.listAll(fid, 4000)
			for _, offset := range []int{1, 3, 1 << 40} {
				if m := c.ask("Tread", fid, offset, 4000); !m.isError() {
					c.stats(m.data("data"))
				}
			}
		},
	},
	{
		Name: "dir/offsets",
		Says: "protocol.md readdir: the offset of an entry is where the next one is; so each can be gone on from",
		only: Linux,
		run: func(t *trial) {
			c := t.session()
			fid := c.opened(modeRead)
			list, err := c.listAll(fid, 4000)
			if err != nil {
				c.fatalf("the root cannot be read: %v", err)
			}
			for i := range list[:min(len(list), 20)] {
				m := c.readDir(fid, list[i].end, 4000)
				if m.isError() {
					c.errorf("going on after %q: %s", list[i].name, m)
					continue
				}
				rest, _ := c.entries(m, 0)
				switch {
				case i+1 < len(list) && (len(rest) == 0 || rest[0].name != list[i+1].name):
					c.errorf("after %q comes %q; going on from its offset comes %q", list[i].name, list[i+1].name, names(rest))
				case i+1 == len(list) && len(rest) > 0:
					c.errorf("after the last entry %q comes %q", list[i].name, rest[0].name)
				}
			}
		},
	},
	{
		Name: "dir/wrong-kind",
		Says: "protocol.md: read cannot be used on directories, and readdir reads directories",
		only: Linux,
		need: needFile,
		run: func(t *trial) {
			c := t.session()
			c.refused("the fid is a directory", "Tread", c.opened(modeRead), 0, 100)
			c.refused("the fid is a file", "Treaddir", c.opened(modeRead, c.file...), 0, 100)
		},
	},
}
