package ninecheck

var attachChecks = []Check{
	{
		Name: "attach/root",
		Says: "attach(5): the qid is that of the root; intro(5): the same file has the same qid.path, and one bit of its type says that it is a directory",
		run: func(t *trial) {
			c := t.session()
			a := c.must("Tattach", c.attach(c.newFid())...).qid("qid")
			b := c.must("Tattach", c.attach(c.newFid())...).qid("qid")
			if !a.same(b) {
				c.errorf("two attaches to the same tree have roots %v and %v", a, b)
			}
			if a.Type&isDir == 0 {
				c.errorf("the root's qid %v is of no directory", a)
			}
			if st := c.mustStat(0); !st.qid.same(a) {
				c.errorf("Rattach says %v and the root's status %v", a, st.qid)
			}
		},
	},
	{
		Name: "attach/fid-in-use",
		Says: "attach(5): it is an error to attach to a fid that is in use",
		run: func(t *trial) {
			c := t.session()
			c.refused("the fid is in use", "Tattach", c.attach(0)...)
			c.clunk(c.at())
		},
	},
	{
		Name: "attach/nofid",
		Says: "attach(5), intro(5): NOFID is no fid",
		run: func(t *trial) {
			c := t.session()
			c.refused("~0 is NOFID and no fid", "Tattach", c.attach(noFid)...)
		},
	},
	{
		Name: "attach/afid",
		Says: "attach(5): afid is NOFID or was made by a Tauth before",
		run: func(t *trial) {
			c := t.session()
			fields := c.attach(c.newFid())
			fields[1] = uint32(4711)
			c.refused("the afid was made by no Tauth", "Tattach", fields...)
		},
	},
	{
		Name: "auth/answered",
		Says: "auth(5): Tauth gets an error where no authentication is needed, else an Rauth whose qid is of type QTAUTH",
		run: func(t *trial) {
			c := t.session()
			fields := []any{c.newFid(), c.Uname, c.Aname}
			if c.dialect.isLinux() {
				fields = append(fields, c.UID)
			}
			if m := c.ask("Tauth", fields...); m.name == "Rauth" && m.qid("aqid").Type&isAuth == 0 {
				c.errorf("the qid %v of Rauth is not of type QTAUTH (08)", m.qid("aqid"))
			}
			c.clunk(c.at())
		},
	},
}
