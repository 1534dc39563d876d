package ninecheck

import (
	"bytes"
	"strings"
)

var createChecks = []Check{
	{
		Name: "create/file",
		Says: "open(5) create: the file is made and open, and fid stands for it; protocol.md lcreate: the same",
		need: needWrite,
		run: func(t *trial) {
			d := t.desk()
			defer d.tidy("a")
			fid := d.at(d.path...)
			m := d.tryCreate(fid, d.pre+"a", modeRdWr)
			if m.isError() {
				d.fatalf("a file cannot be created in %q: %s", d.path, m)
			}
			q := m.qid("qid")
			if st := d.mustStat(fid); !st.qid.same(q) || st.dir {
				d.errorf("the new file is %v, and its fid stands for %v", q, st.qid)
			}
			if n := d.must("Twrite", fid, 0, []byte("hello")).num("count"); n != 5 {
				d.errorf("5 bytes were written, as %d", n)
			}
			if b := d.must("Tread", fid, 1, 100).data("data"); string(b) != "ello" {
				d.errorf("after hello was written, at 1 there is %q", b)
			}
			d.clunk(fid)
			if got := d.holds("a"); got != "hello" {
				d.errorf("the file holds %q", got)
			}
			if st := d.mustStat(d.at(d.to("a")...)); st.length != 5 || !st.qid.same(q) {
				d.errorf("the file has %d bytes and is %v", st.length, st.qid)
			}
		},
	},
	{
		Name: "create/exists",
		Says: "open(5) create: a name that is there already is refused (9P2000.L: with O_EXCL, as open(2))",
		need: needWrite,
		run: func(t *trial) {
			d := t.desk()
			defer d.tidy("a")
			d.fill("a", "first")
			mode := modeRdWr
			if d.dialect.isLinux() {
				mode |= 0o200 // O_EXCL
			}
			if m := d.tryCreate(d.at(d.path...), d.pre+"a", mode); !m.isError() {
				d.errorf("a file that is there is created again")
			}
			if got := d.holds("a"); got != "first" {
				d.errorf("after a create that was to fail the file holds %q", got)
			}
		},
	},
	{
		Name: "create/names",
		Says: "open(5) create: . and .. are illegal; intro(5): so are a slash, a NUL and nothing",
		need: needWrite,
		run: func(t *trial) {
			d := t.desk()
			defer d.tidy()
			for _, name := range []string{".", "..", "", "a/b", "a\x00b"} {
				fid := d.at(d.path...)
				if m := d.tryCreate(fid, name, modeRdWr); !m.isError() {
					d.errorf("a file called %q can be created", name)
					d.ask("Tremove", fid)
				}
				if m := d.tryMkdir(d.path, name); !m.isError() {
					d.errorf("a directory called %q can be made", name)
				}
			}
		},
	},
	{
		Name: "create/in-a-file",
		Says: "open(5) create: fid is a directory",
		need: needWrite,
		run: func(t *trial) {
			d := t.desk()
			defer d.tidy("a")
			d.fill("a", "x")
			if m := d.tryCreate(d.at(d.to("a")...), "b", modeRdWr); !m.isError() {
				d.errorf("a file can be created in a file")
			}
		},
	},
	{
		Name: "create/directory",
		Says: "open(5) create with DMDIR, protocol.md mkdir: a directory is made, empty, with a qid of its own",
		need: needWrite,
		run: func(t *trial) {
			d := t.desk()
			defer d.tidy("dir")
			d.mkdir("dir")
			fid := d.at(d.to("dir")...)
			if st := d.mustStat(fid); !st.dir || st.qid.Type&isDir == 0 {
				d.errorf("a new directory has the status %+v", st)
			}
			if m := d.open(fid, modeRead); m.isError() {
				d.fatalf("a new directory cannot be opened: %s", m)
			}
			list, err := d.listAll(fid, 4000)
			if err != nil {
				d.errorf("a new directory cannot be read: %v", err)
			}
			for _, name := range names(list) {
				if name != "." && name != ".." {
					d.errorf("a new directory holds %q", name)
				}
			}
			if m := d.tryMkdir(d.path, d.pre+"dir"); !m.isError() {
				d.errorf("a directory that is there is made again")
			}
		},
	},
}

var writeChecks = []Check{
	{
		Name: "write/modes",
		Says: "read(5): read needs a fid that is open for reading, write one that is open for writing",
		need: needWrite,
		run: func(t *trial) {
			d := t.desk()
			defer d.tidy("a")
			d.fill("a", "content")
			d.refused("the fid is open for reading", "Twrite", d.opened(modeRead, d.to("a")...), 0, []byte("X"))
			d.refused("the fid is open for writing", "Tread", d.opened(modeWrite, d.to("a")...), 0, 10)
			d.refused("the fid is not open", "Twrite", d.at(d.to("a")...), 0, []byte("X"))
			if got := d.holds("a"); got != "content" {
				d.errorf("the file holds %q", got)
			}
		},
	},
	{
		Name: "write/offsets",
		Says: "read(5): count bytes are recorded from offset on; write(2): what lies between reads as zeros",
		need: needWrite,
		run: func(t *trial) {
			d := t.desk()
			defer d.tidy("a")
			fid := d.create("a", modeRdWr)
			d.must("Twrite", fid, 6, []byte("world"))
			d.must("Twrite", fid, 0, []byte("hello"))
			d.must("Twrite", fid, 11, []byte{})
			d.clunk(fid)
			if got := d.holds("a"); got != "hello\x00world" {
				d.errorf("the file holds %q", got)
			}
		},
	},
	{
		Name: "write/large",
		Says: "version(5): a message may have msize bytes; read(5): the reply says how many were written",
		need: needWrite,
		run: func(t *trial) {
			d := t.desk()
			defer d.tidy("a")
			fid := d.create("a", modeRdWr)
			content := bytes.Repeat([]byte("0123456789abcdef"), int(d.msize)/16)
			sent := content[:d.msize-23] // a Twrite has 23 bytes before its data
			n := d.must("Twrite", fid, 0, sent).num("count")
			if n == 0 || n > uint64(len(sent)) {
				d.fatalf("%d bytes were written, as %d", len(sent), n)
			}
			if got := d.readAll(fid, 4096); !bytes.Equal(got, sent[:n]) {
				d.errorf("%d bytes were written, and %d others read", n, len(got))
			}
		},
	},
	{
		Name: "write/truncate",
		Says: "open(5): OTRUNC empties the file (9P2000.L: O_TRUNC); it needs write permission",
		need: needWrite,
		run: func(t *trial) {
			d := t.desk()
			defer d.tidy("a")
			d.fill("a", "content")
			fid := d.opened(d.truncating(modeWrite), d.to("a")...)
			d.must("Twrite", fid, 0, []byte("new"))
			d.clunk(fid)
			if got := d.holds("a"); got != "new" {
				d.errorf("the file holds %q", got)
			}
		},
	},
	{
		Name: "write/length",
		Says: "stat(5): wstat sets the length; protocol.md setattr: size, as truncate(2): down and up, with zeros",
		need: needWrite,
		run: func(t *trial) {
			d := t.desk()
			defer d.tidy("a")
			d.fill("a", "content")
			for _, step := range []struct {
				length int
				want   string
			}{{3, "con"}, {5, "con\x00\x00"}, {0, ""}} {
				fid := d.at(d.to("a")...)
				var m *message
				if d.dialect.isLinux() {
					m = d.ask("Tsetattr", fid, 0x8, 0, 0, 0, step.length, 0, 0, 0, 0)
				} else {
					m = d.ask("Twstat", fid, newStat("", uint64(step.length)))
				}
				d.clunk(fid)
				if m.isError() {
					d.errorf("the length cannot be set to %d: %s", step.length, m)
				} else if got := d.holds("a"); got != step.want {
					d.errorf("with a length of %d the file holds %q", step.length, got)
				}
			}
		},
	},
	{
		Name: "write/sync",
		Says: "stat(5): a wstat that touches nothing commits the file; protocol.md fsync: so does fsync",
		need: needWrite,
		run: func(t *trial) {
			d := t.desk()
			defer d.tidy("a")
			fid := d.create("a", modeRdWr)
			d.must("Twrite", fid, 0, []byte("x"))
			if d.dialect.isLinux() {
				d.must("Tfsync", fid, 0)
			} else {
				d.must("Twstat", fid, untouched())
			}
			if got := d.holds("a"); got != "x" {
				d.errorf("the file holds %q", got)
			}
		},
	},
	{
		Name: "write/two-clients",
		Says: "intro(5): a file is one, whoever opened it: what one connection has written another one reads",
		need: needWrite,
		run: func(t *trial) {
			d := t.desk()
			defer d.tidy("a")
			d.fill("a", "first")
			other := t.session()
			fid := other.opened(modeRead, d.to("a")...)
			writer := d.opened(modeWrite, d.to("a")...)
			d.must("Twrite", writer, 0, []byte("FIRST and more"))
			if got := string(other.readAll(fid, 4000)); got != "FIRST and more" {
				d.errorf("another connection reads %q", got)
			}
		},
	},
	{
		Name: "write/long-name",
		Says: "intro(5): a name the server does not take is an error; the session goes on",
		need: needWrite,
		run: func(t *trial) {
			d := t.desk()
			defer d.tidy()
			fid := d.at(d.path...)
			if m := d.tryCreate(fid, strings.Repeat("n", 5000), modeRdWr); !m.isError() {
				d.ask("Tremove", fid)
			}
			d.mustStat(0)
		},
	},
}
