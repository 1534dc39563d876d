package ninecheck

var renameChecks = []Check{
	{
		Name: "rename/name",
		Says: "stat(5): wstat changes the name; protocol.md rename: so does it; a fid of the file goes on standing for it, and its qid is that of a walk to the new name",
		need: needWrite,
		run: func(t *trial) {
			d := t.desk()
			defer d.tidy("a", "b")
			d.fill("a", "content")
			fid := d.at(d.to("a")...)
			if m := d.renameFid(fid, "b"); m.isError() {
				d.fatalf("a file cannot be renamed: %s", m)
			}
			d.gone("a", "it was renamed")
			if got := d.holds("b"); got != "content" {
				d.errorf("the renamed file holds %q", got)
			}
			kept, walked := d.mustStat(fid), d.mustStat(d.at(d.to("b")...))
			if !kept.qid.same(walked.qid) {
				d.errorf("the fid that was renamed is %v, and a walk leads to %v", kept.qid, walked.qid)
			}
			if !d.dialect.isLinux() && kept.name != d.pre+"b" {
				d.errorf("the fid that was renamed has the name %q", kept.name)
			}
		},
	},
	{
		Name: "rename/over",
		Says: "stat(5): a wstat to a name that is there is an error (clients of Linux need it to replace the file: both are taken, but a loss of one without the other is not); rename(2): it replaces it",
		need: needWrite,
		run: func(t *trial) {
			d := t.desk()
			defer d.tidy("a", "b")
			d.fill("a", "from")
			d.fill("b", "to")
			m := d.rename("a", "b")
			switch {
			case m.isError() && d.dialect.isLinux():
				d.errorf("a rename onto a file is refused: %s", m)
			case m.isError():
				if a, b := d.holds("a"), d.holds("b"); a != "from" || b != "to" {
					d.errorf("after a rename that was refused the files hold %q and %q", a, b)
				}
			default:
				d.gone("a", "it was renamed")
				if b := d.holds("b"); b != "from" {
					d.errorf("after a rename onto it the file holds %q", b)
				}
			}
		},
	},
	{
		Name: "rename/at",
		Says: "protocol.md renameat: like renameat(2): the name moves; one that is not there is ENOENT",
		need: needWrite,
		only: Linux,
		run: func(t *trial) {
			d := t.desk()
			defer d.tidy("a", "b")
			d.fill("a", "content")
			dir := d.at(d.path...)
			if m := d.refused("there is no such name", "Trenameat", dir, d.pre+nowhere, dir, d.pre+"b"); m.isError() && m.num("ecode") != 2 {
				d.errorf("the error is %s, not ENOENT (2)", m)
			}
			d.must("Trenameat", dir, d.pre+"a", dir, d.pre+"b")
			d.gone("a", "it was renamed")
			if got := d.holds("b"); got != "content" {
				d.errorf("the renamed file holds %q", got)
			}
		},
	},
	{
		Name: "rename/across",
		Says: "protocol.md renameat: from one directory to another, or an error that leaves both as they were (EXDEV)",
		need: needWrite,
		only: Linux,
		run: func(t *trial) {
			d := t.desk()
			defer d.tidy("a", "dir")
			d.mkdir("dir")
			d.fill("a", "content")
			from, to := d.at(d.path...), d.at(d.to("dir")...)
			if m := d.ask("Trenameat", from, d.pre+"a", to, "b"); m.isError() {
				if got := d.holds("a"); got != "content" {
					d.errorf("after a rename that was refused the file holds %q", got)
				}
				return
			}
			d.gone("a", "it was renamed")
			fid := d.opened(modeRead, append(d.to("dir"), "b")...)
			if got := string(d.readAll(fid, 100)); got != "content" {
				d.errorf("the renamed file holds %q", got)
			}
			d.ask("Tremove", fid)
		},
	},
	{
		Name: "rename/names",
		Says: "intro(5): . and .., a slash, a NUL and nothing are no names; a rename to one is refused and the file stays",
		need: needWrite,
		run: func(t *trial) {
			d := t.desk()
			defer d.tidy("a")
			d.fill("a", "content")
			for _, name := range []string{".", "..", "x/y", "x\x00y"} {
				fid := d.at(d.to("a")...)
				var m *message
				if d.dialect.isLinux() {
					m = d.ask("Trename", fid, d.at(d.path...), name)
				} else {
					m = d.ask("Twstat", fid, newStat(name, 1<<64-1))
				}
				if !m.isError() {
					d.errorf("a file can be renamed to %q", name)
				}
				d.clunk(fid)
			}
			if got := d.holds("a"); got != "content" {
				d.errorf("the file holds %q", got)
			}
		},
	},
}

var removeChecks = []Check{
	{
		Name: "remove/clunks",
		Says: "remove(5): the file is removed and the fid clunked",
		need: needWrite,
		run: func(t *trial) {
			d := t.desk()
			defer d.tidy("a")
			d.fill("a", "x")
			fid := d.at(d.to("a")...)
			d.must("Tremove", fid)
			d.unknown(fid, "its file was removed")
			d.gone("a", "it was removed")
		},
	},
	{
		Name: "remove/refused",
		Says: "remove(5): the fid is clunked even if the remove fails; a directory that is not empty stays",
		need: needWrite,
		run: func(t *trial) {
			d := t.desk()
			inside := append(d.to("dir"), "x")
			defer d.tidy("dir")
			d.mkdir("dir")
			fid := d.at(d.to("dir")...)
			if m := d.tryCreate(fid, "x", modeRdWr); m.isError() {
				d.fatalf("no file can be created in a new directory: %s", m)
			}
			d.clunk(fid)
			fid = d.at(d.to("dir")...)
			d.refused("the directory is not empty", "Tremove", fid)
			d.unknown(fid, "a remove was tried")
			left, err := d.reach(inside)
			if err != nil {
				d.fatalf("what was in the directory is gone")
			}
			d.must("Tremove", left)
		},
	},
	{
		Name: "remove/open",
		Says: "remove(5): a fid that is open is removed and clunked too; others may go on or not",
		need: needWrite,
		run: func(t *trial) {
			d := t.desk()
			defer d.tidy("a")
			d.fill("a", "content")
			other := d.opened(modeRead, d.to("a")...)
			fid := d.opened(modeRead, d.to("a")...)
			d.must("Tremove", fid)
			d.unknown(fid, "its file was removed")
			d.gone("a", "it was removed")
			if m := d.ask("Tread", other, 0, 100); !m.isError() && string(m.data("data")) != "content" {
				d.errorf("a fid that was open before reads %q", m.data("data"))
			}
			d.clunk(other)
		},
	},
	{
		Name: "remove/again",
		Says: "intro(5): a file that is made again under the name of a removed one is another file, with another qid.path",
		need: needWrite,
		run: func(t *trial) {
			d := t.desk()
			defer d.tidy("a", "b")
			d.fill("a", "x")
			first := d.mustStat(d.at(d.to("a")...)).qid
			d.must("Tremove", d.at(d.to("a")...))
			d.fill("b", "so that a file system cannot give out the same inode by chance")
			d.fill("a", "y")
			if second := d.mustStat(d.at(d.to("a")...)).qid; second.Path == first.Path && second.Version == first.Version {
				d.errorf("the qid %v is that of a file which was removed", second)
			}
		},
	},
	{
		Name: "remove/on-close",
		Says: "open(5): with ORCLOSE the file is removed when the fid is clunked",
		need: needWrite,
		only: Plan9,
		run: func(t *trial) {
			d := t.desk()
			defer d.tidy("a")
			d.fill("a", "x")
			fid := d.opened(modeRead|0x40, d.to("a")...)
			if _, err := d.reach(d.to("a")); err != nil {
				d.errorf("the file is gone before its fid is clunked")
			}
			d.clunk(fid)
			d.gone("a", "it was open with ORCLOSE")
		},
	},
	{
		Name: "remove/unlinkat",
		Says: "protocol.md unlinkat, unlinkat(2): a directory only with AT_REMOVEDIR, a file only without; what is not there is ENOENT",
		need: needWrite,
		only: Linux,
		run: func(t *trial) {
			d := t.desk()
			defer d.tidy("a", "dir")
			const removeDir = 0x200
			d.fill("a", "x")
			d.mkdir("dir")
			at := d.at(d.path...)
			d.refused("the name is a file's", "Tunlinkat", at, d.pre+"a", removeDir)
			d.refused("the name is a directory's", "Tunlinkat", at, d.pre+"dir", 0)
			if m := d.refused("there is no such name", "Tunlinkat", at, d.pre+nowhere, 0); m.isError() && m.num("ecode") != 2 {
				d.errorf("the error is %s, not ENOENT (2)", m)
			}
			d.must("Tunlinkat", at, d.pre+"a", 0)
			d.must("Tunlinkat", at, d.pre+"dir", removeDir)
			d.gone("a", "it was unlinked")
			d.gone("dir", "it was unlinked")
		},
	},
}
