package ninecheck

import (
	"crypto/rand"
	"strings"
)

// A desk is a directory of this check's own, below Options.Write. Where the
// server makes no directories, it is that directory itself.
type desk struct {
	*conn
	path []string
	made bool
	pre  string // of every name, where path is not our own
}

// desk makes one on a new connection.
func (t *trial) desk() *desk {
	d := &desk{conn: t.session(), path: strings.FieldsFunc(t.Write, func(r rune) bool { return r == '/' })}
	name := "ninecheck-" + rand.Text()[:8]
	if m := d.tryMkdir(d.path, name); m.isError() {
		d.pre = name + "-"
		return d
	}
	d.path, d.made = append(append([]string{}, d.path...), name), true
	return d
}

// to returns the path of name in d.
func (d *desk) to(name string) []string {
	return append(append([]string{}, d.path...), d.pre+name)
}

// tidy removes what is left of d; the check is over.
func (d *desk) tidy(names ...string) {
	for _, name := range names {
		if fid, err := d.reach(d.to(name)); err == nil {
			d.ask("Tremove", fid)
		}
	}
	if d.made {
		if fid, err := d.reach(d.path); err == nil {
			d.ask("Tremove", fid)
		}
	}
}

// create makes a file, open with mode, and returns its fid.
func (d *desk) create(name string, mode int) uint32 {
	fid := d.at(d.path...)
	if m := d.tryCreate(fid, d.pre+name, mode); m.isError() {
		d.fatalf("%q cannot be created in %q: %s", d.pre+name, d.path, m)
	}
	return fid
}

// fill makes a file that holds content.
func (d *desk) fill(name, content string) {
	fid := d.create(name, modeRdWr)
	if n := d.must("Twrite", fid, 0, []byte(content)).num("count"); n != uint64(len(content)) {
		d.errorf("%d of %d bytes are written", n, len(content))
	}
	d.clunk(fid)
}

// holds returns what is in the file.
func (d *desk) holds(name string) string {
	fid := d.opened(modeRead, d.to(name)...)
	defer d.ask("Tclunk", fid)
	return string(d.readAll(fid, 4000))
}

// gone reports a finding if name is there.
func (d *desk) gone(name, why string) {
	if fid, err := d.reach(d.to(name)); err == nil {
		d.errorf("%q is there: %s", name, why)
		d.ask("Tclunk", fid)
	}
}

// tryCreate sends Tcreate or Tlcreate of a file.
func (c *conn) tryCreate(dir uint32, name string, mode int) *message {
	if c.dialect.isLinux() {
		return c.ask("Tlcreate", dir, name, mode|0o100, 0o644, c.UID)
	}
	return c.ask("Tcreate", dir, name, 0o644, mode)
}

// tryMkdir makes a directory.
func (c *conn) tryMkdir(in []string, name string) *message {
	fid := c.at(in...)
	defer c.ask("Tclunk", fid)
	if c.dialect.isLinux() {
		return c.ask("Tmkdir", fid, name, 0o755, c.UID)
	}
	return c.ask("Tcreate", fid, name, uint32(0o755|isDir<<24), modeRead)
}

// mkdir is tryMkdir in d; without directories there is nothing to check.
func (d *desk) mkdir(name string) {
	if m := d.tryMkdir(d.path, d.pre+name); m.isError() {
		d.skip("no directory can be made in %q: %s", d.path, m)
	}
}

// rename gives a file another name in its directory.
func (d *desk) rename(name, to string) *message {
	fid := d.at(d.to(name)...)
	defer d.ask("Tclunk", fid)
	return d.renameFid(fid, to)
}

func (d *desk) renameFid(fid uint32, to string) *message {
	if d.dialect.isLinux() {
		return d.ask("Trename", fid, d.at(d.path...), d.pre+to)
	}
	return d.ask("Twstat", fid, newStat(d.pre+to, 1<<64-1))
}
