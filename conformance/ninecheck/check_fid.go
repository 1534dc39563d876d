package ninecheck

var fidChecks = []Check{
	{
		Name: "fid/unknown",
		Says: "intro(5): a fid is made by attach or walk; a request with another one is an error, and only that",
		run: func(t *trial) {
			c := t.session()
			const fid = 12345
			const why = "there is no such fid"
			c.refused(why, "Twalk", fid, c.newFid(), []string{})
			c.refused(why, "Tread", fid, 0, 1)
			c.refused(why, "Tclunk", fid)
			c.refused(why, "Tremove", fid)
			c.refused(why, "Tclunk", uint32(noFid))
			if m := c.open(fid, modeRead); !m.isError() {
				c.errorf("an unknown fid can be opened")
			}
			if _, err := c.stat(fid); err == nil {
				c.errorf("an unknown fid has a status")
			}
			c.clunk(c.at())
		},
	},
	{
		Name: "fid/in-use",
		Says: "walk(5): newfid must not be in use unless it is fid; else an error, and it stays what it was",
		need: needDir,
		run: func(t *trial) {
			c := t.session()
			fid := c.at(c.dir...)
			is := c.mustStat(fid).qid
			c.refused("newfid is in use", "Twalk", 0, fid, []string{})
			if now := c.mustStat(fid).qid; !now.same(is) {
				c.errorf("the fid was %v and is %v", is, now)
			}
		},
	},
	{
		Name: "fid/nofid",
		Says: "intro(5): NOFID stands for no fid, so no walk can make it one",
		run: func(t *trial) {
			c := t.session()
			c.refused("~0 is NOFID and no fid", "Twalk", 0, uint32(noFid), []string{})
		},
	},
	{
		Name: "fid/clunk",
		Says: "clunk(5): the fid is forgotten and its number can be used again",
		run: func(t *trial) {
			c := t.session()
			fid := c.at()
			c.clunk(fid)
			c.unknown(fid, "the fid was clunked")
			c.must("Twalk", 0, fid, []string{})
			c.clunk(fid)
		},
	},
	{
		Name: "fid/open-twice",
		Says: "open(5): it is an error if the fid is already the product of a successful open or create",
		run: func(t *trial) {
			c := t.session()
			fid := c.opened(modeRead)
			if m := c.open(fid, modeRead); !m.isError() {
				c.errorf("an open fid is opened again")
			}
		},
	},
	{
		Name: "fid/walk-open",
		Says: "walk(5): the fid must not have been opened (clients of 9P2000.L clone open fids all the same, so there only a walk of the fid itself is looked at)",
		need: needDir,
		run: func(t *trial) {
			c := t.session()
			fid := c.opened(modeRead)
			newFid := fid
			if !c.dialect.isLinux() {
				newFid = c.newFid()
			}
			c.refused("the fid is open", "Twalk", fid, newFid, c.dir[:1])
			if _, err := c.listAll(fid, 4000); err != nil {
				c.errorf("the fid cannot be read after a walk of it was tried: %v", err)
			}
		},
	},
	{
		Name: "fid/many",
		Says: "intro(5): the client chooses the fids; a session may have many, and each is its own",
		run: func(t *trial) {
			c := t.session()
			const most = 1000
			all := burst{conn: c}
			for i := range most {
				all.add("Twalk", 0, 1_000_000+i*4_000, []string{})
			}
			all.each(func(m *message) {
				if m.isError() {
					c.fatalf("a fid is refused: %s", m)
				}
			})
			for i := range most {
				c.clunk(uint32(1_000_000 + i*4_000))
			}
		},
	},
}

var tagChecks = []Check{
	{
		Name: "tag/outstanding",
		Says: "intro(5): a client may have many requests outstanding; each is answered once, with its tag, in any order",
		run: func(t *trial) {
			c := t.session()
			c.tags = 20_000
			all := burst{conn: c}
			for range 300 {
				if c.dialect.isLinux() {
					all.add("Tgetattr", 0, 0x7ff)
				} else {
					all.add("Tstat", 0)
				}
			}
			all.each(func(m *message) {
				if m.isError() {
					c.errorf("a request among many is refused: %s", m)
				}
			})
			c.silent()
		},
	},
	{
		Name: "tag/values",
		Says: "intro(5): the tag is the client's choice, anything but NOTAG, and free again after the reply",
		run: func(t *trial) {
			c := t.session()
			for _, tag := range []uint16{0, 0xfffe, 1, 1, 1, 0x8000} {
				c.sendTag(tag, "Twalk", 0, 77, []string{})
				if m := c.await(tag); m.isError() {
					c.fatalf("a request with tag %d is refused: %s", tag, m)
				}
				c.clunk(77)
			}
		},
	},
}
