package ninecheck

import "strings"

// nowhere is a name that no directory has.
const nowhere = "ninecheck-there-is-no-such-name"

var walkChecks = []Check{
	{
		Name: "walk/clone",
		Says: "walk(5): with no names newfid stands for the same file, and the reply has no qids",
		run: func(t *trial) {
			c := t.session()
			fid := c.newFid()
			if m := c.must("Twalk", 0, fid, []string{}); len(m.qids()) != 0 {
				c.errorf("%d qids for no names", len(m.qids()))
			}
			if a, b := c.mustStat(0).qid, c.mustStat(fid).qid; !a.same(b) {
				c.errorf("the clone of %v is %v", a, b)
			}
			c.clunk(fid)
			c.mustStat(0)
		},
	},
	{
		Name: "walk/same-fid",
		Says: "walk(5): newfid may be fid, which then stands for the file reached, or if the walk fails for what it was",
		need: needDir,
		run: func(t *trial) {
			c := t.session()
			fid := c.at()
			root := c.mustStat(fid).qid
			c.refused("there is no such name", "Twalk", fid, fid, []string{nowhere})
			if now := c.mustStat(fid).qid; !now.same(root) {
				c.errorf("after a walk that failed the fid is %v, not %v", now, root)
			}
			qids := c.must("Twalk", fid, fid, c.dir[:1]).qids()
			if now := c.mustStat(fid).qid; len(qids) != 1 || !now.same(qids[0]) {
				c.errorf("the fid is %v after a walk to %v", now, qids)
			}
		},
	},
	{
		Name: "walk/partial",
		Says: "walk(5): if a name after the first cannot be walked, the reply has a qid for each before it, and newfid is not made",
		need: needDir,
		run: func(t *trial) {
			c := t.session()
			fid := c.newFid()
			path := append(append([]string{}, c.dir...), nowhere, "further")
			if n := len(c.must("Twalk", 0, fid, path).qids()); n != len(c.dir) {
				c.errorf("%d qids where %d names exist", n, len(c.dir))
			}
			c.unknown(fid, "the walk was not complete, so newfid is not made")
			from := c.at()
			root := c.mustStat(from).qid
			c.must("Twalk", from, from, path)
			if now := c.mustStat(from).qid; !now.same(root) {
				c.errorf("a walk that was not complete took the fid from %v to %v", root, now)
			}
		},
	},
	{
		Name: "walk/first",
		Says: "walk(5): if the first name cannot be walked the answer is an error, and newfid is not made",
		run: func(t *trial) {
			c := t.session()
			fid := c.newFid()
			m := c.refused("there is no such name", "Twalk", 0, fid, []string{nowhere})
			if m.name == "Rlerror" && m.num("ecode") != 2 {
				c.errorf("a name that is not there is errno %d and not ENOENT (2)", m.num("ecode"))
			}
			c.unknown(fid, "the walk failed, so newfid is not made")
		},
	},
	{
		Name: "walk/sixteen",
		Says: "walk(5): up to sixteen names; .. in the root is the root",
		run: func(t *trial) {
			c := t.session()
			root := c.mustStat(0).qid
			m := c.must("Twalk", 0, c.newFid(), strings.Fields(strings.Repeat(".. ", maxNames)))
			if len(m.qids()) != maxNames {
				c.errorf("%d qids for sixteen names", len(m.qids()))
			}
			for _, q := range m.qids() {
				if !q.same(root) {
					c.fatalf("from the root %v .. leads to %v", root, q)
				}
			}
		},
	},
	{
		Name: "walk/dotdot",
		Says: "walk(5): .. is the parent directory",
		need: needDir,
		run: func(t *trial) {
			c := t.session()
			root := c.mustStat(0).qid
			qids := c.must("Twalk", 0, c.newFid(), []string{c.dir[0], ".."}).qids()
			if len(qids) != 2 || !qids[1].same(root) {
				c.errorf("a directory and back is %v, and the root is %v", qids, root)
			}
			qids = c.must("Twalk", c.at(c.dir[0]), c.newFid(), []string{".."}).qids()
			if len(qids) != 1 || !qids[0].same(root) {
				c.errorf(".. of a fid leads to %v, and the root is %v", qids, root)
			}
		},
	},
	{
		Name: "walk/names",
		Says: "intro(5): a name has no slash and no NUL and is not empty; walk(5): . is not used in the protocol",
		need: needDir,
		run: func(t *trial) {
			c := t.session()
			for _, name := range []string{"", ".", "/", c.dir[0] + "/..", c.dir[0] + "/", "a\x00b", strings.Repeat("x", 300)} {
				fid := c.newFid()
				if m := c.ask("Twalk", 0, fid, []string{name}); !m.isError() {
					c.errorf("a walk to %q is answered with %v", clipped(name), m)
					c.ask("Tclunk", fid)
				}
			}
		},
	},
	{
		Name: "walk/file",
		Says: "walk(5): fid must be a directory unless there are no names",
		need: needFile,
		run: func(t *trial) {
			c := t.session()
			fid := c.at(c.file...)
			c.refused("fid is no directory", "Twalk", fid, c.newFid(), []string{"x"})
			c.refused("fid is no directory", "Twalk", fid, c.newFid(), []string{".."})
			newFid := c.newFid()
			c.must("Twalk", fid, newFid, []string{})
			c.clunk(newFid)
		},
	},
	{
		Name: "walk/qids",
		Says: "intro(5): two files are the same only if their qids are; walk, open and status tell the same one",
		need: needFile,
		run: func(t *trial) {
			c := t.session()
			fid := c.newFid()
			qids := c.must("Twalk", 0, fid, c.file[:min(len(c.file), maxNames)]).qids()
			if len(qids) != len(c.file) {
				c.fatalf("%d qids for %d names", len(qids), len(c.file))
			}
			for i, q := range qids[:len(qids)-1] {
				if q.Type&isDir == 0 {
					c.errorf("name %d of a path is %v, no directory", i, q)
				}
			}
			walked := qids[len(qids)-1]
			if st := c.mustStat(fid); !st.qid.same(walked) {
				c.errorf("the walk says %v and the status %v", walked, st.qid)
			}
			m := c.open(fid, modeRead)
			if m.isError() {
				c.fatalf("the file cannot be opened: %s", m)
			}
			if q := m.qid("qid"); !q.same(walked) {
				c.errorf("the walk says %v and the open %v", walked, q)
			}
		},
	},
}
