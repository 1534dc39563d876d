package ninecheck

var attrChecks = []Check{
	{
		Name: "stat/fields",
		Says: "stat(5): the root is called /; the size is said twice; the high 8 bits of mode are qid.type; directories have length 0",
		only: Plan9,
		run: func(t *trial) {
			c := t.session()
			st := c.mustStat(0)
			if st.name != "/" {
				c.errorf("the root is called %q", st.name)
			}
			if !st.dir || st.length != 0 {
				c.errorf("the root is a directory: %v, and its length is %d", st.dir, st.length)
			}
			list, err := c.listAll(c.opened(modeRead), 4000)
			if err != nil {
				c.fatalf("the root cannot be read: %v", err)
			}
			for _, e := range list[:min(len(list), 20)] {
				st := c.mustStat(c.at(e.name))
				if st.name != e.name {
					c.errorf("%q has the name %q in its status", e.name, st.name)
				}
				if !st.qid.same(e.qid) {
					c.errorf("%q is %v in the directory and %v in its status", e.name, e.qid, st.qid)
				}
			}
		},
	},
	{
		Name: "getattr/mask",
		Says: "protocol.md getattr: valid says which fields are; those that were asked for and every file has are among them, and mode and qid agree",
		only: Linux,
		run: func(t *trial) {
			c := t.session()
			m := c.must("Tgetattr", 0, 0x7ff)
			const everyFile = 0x1 | 0x2 | 0x4 | 0x8 | 0x40 | 0x100 | 0x200 // mode nlink uid gid mtime ino size
			if valid := m.num("valid"); valid&everyFile != everyFile {
				c.errorf("valid is %#x: of mode, nlink, uid, gid, mtime, ino and size %#x is missing", valid, everyFile&^valid)
			}
			if m.num("mode")&formatMask != formatDir || m.qid("qid").Type&isDir == 0 {
				c.errorf("the root has mode %o and qid %v", m.num("mode"), m.qid("qid"))
			}
			for _, mask := range []uint64{0, 1, 0x200, 0x3fff, 1<<64 - 1} {
				c.must("Tgetattr", 0, mask)
			}
		},
	},
	{
		Name: "getattr/file",
		Says: "protocol.md getattr: size is that of stat(2), nlink too; the qid is that of the walk",
		only: Linux,
		need: needFile,
		run: func(t *trial) {
			c := t.session()
			m := c.must("Tgetattr", c.at(c.file...), 0x7ff)
			if n := m.num("size"); n != c.length {
				c.errorf("size is %d and was %d", n, c.length)
			}
			if m.num("mode")&formatMask != formatFile || m.qid("qid").Type&isDir != 0 {
				c.errorf("a file has mode %o and qid %v", m.num("mode"), m.qid("qid"))
			}
			if m.num("nlink") == 0 {
				c.errorf("a file that is there has nlink 0")
			}
		},
	},
	{
		Name: "statfs/fields",
		Says: "protocol.md statfs: what statfs(2) returns: no more is free than there is",
		only: Linux,
		run: func(t *trial) {
			c := t.session()
			m := c.ask("Tstatfs", 0)
			if m.isError() {
				c.skip("the server has no statfs: %s", m)
			}
			if m.num("bfree") > m.num("blocks") || m.num("ffree") > m.num("files") {
				c.errorf("more is free than there is")
			}
			if m.num("bsize") == 0 {
				c.errorf("blocks of 0 bytes")
			}
		},
	},
	{
		Name: "readlink/file",
		Says: "protocol.md readlink, readlink(2): only a symbolic link has a target",
		only: Linux,
		run: func(t *trial) {
			c := t.session()
			c.refused("the root is no symbolic link", "Treadlink", 0)
			c.mustStat(0)
		},
	},
	{
		Name: "xattr/list",
		Says: "protocol.md xattrwalk: newfid is for reading as many bytes as the size says, or the request is refused and newfid is not made",
		only: Linux,
		run: func(t *trial) {
			c := t.session()
			fid := c.newFid()
			m := c.ask("Txattrwalk", 0, fid, "")
			if m.isError() {
				c.unknown(fid, "the walk to the attributes was refused")
				return
			}
			if size := m.num("size"); size > 0 {
				if n := len(c.readAll(fid, 4000)); uint64(n) != size {
					c.errorf("%d bytes of attributes where %d were announced", n, size)
				}
			}
			c.clunk(fid)
		},
	},
	{
		Name: "error/text",
		Says: "error(5): an error is a text for people; protocol.md lerror: a Linux errno (2 where there is no such file, 9 or another where there is no such fid)",
		run: func(t *trial) {
			c := t.session()
			m := c.refused("there is no such name", "Twalk", 0, c.newFid(), []string{nowhere})
			if m.name == "Rerror" && !saysNotThere(m.text("ename")) {
				c.errorf("that a name is not there is told as %q, in which no client finds it", m.text("ename"))
			}
		},
	},
	{
		Name: "wstat/nothing",
		Says: "stat(5): a Twstat in which every value is \"don't touch\" changes nothing and succeeds, or is refused where the file may not be changed at all",
		only: Plan9,
		need: needFile,
		run: func(t *trial) {
			c := t.session()
			fid := c.at(c.file...)
			before := c.must("Tstat", fid).data("stat")
			c.ask("Twstat", fid, untouched())
			if after := c.must("Tstat", fid).data("stat"); string(after) != string(before) {
				c.errorf("the status changed from %x to %x", before, after)
			}
		},
	},
}
