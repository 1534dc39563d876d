package ninecheck

import (
	"fmt"
	"strconv"
	"strings"
)

// The messages as the manual writes them, without the size[4] and tag[2] that
// all have: intro(5), and protocol.md of diod for 9P2000.L. The number is the
// type of the T-message; the R-message has the next.
const (
	shared = `
100 version msize[4] version[s] -> msize[4] version[s]
108 flush oldtag[2] ->
110 walk fid[4] newfid[4] wname[s]* -> wqid[13]*
116 read fid[4] offset[8] count[4] -> data[count]
118 write fid[4] offset[8] data[count] -> count[4]
120 clunk fid[4] ->
122 remove fid[4] ->
`
	onlyPlan9 = `
102 auth afid[4] uname[s] aname[s] -> aqid[13]
104 attach fid[4] afid[4] uname[s] aname[s] -> qid[13]
106 error -> ename[s]
112 open fid[4] mode[1] -> qid[13] iounit[4]
114 create fid[4] name[s] perm[4] mode[1] -> qid[13] iounit[4]
124 stat fid[4] -> stat[n]
126 wstat fid[4] stat[n] ->
`
	onlyLinux = `
6 lerror -> ecode[4]
8 statfs fid[4] -> type[4] bsize[4] blocks[8] bfree[8] bavail[8] files[8] ffree[8] fsid[8] namelen[4]
12 lopen fid[4] flags[4] -> qid[13] iounit[4]
14 lcreate fid[4] name[s] flags[4] mode[4] gid[4] -> qid[13] iounit[4]
16 symlink fid[4] name[s] symtgt[s] gid[4] -> qid[13]
18 mknod dfid[4] name[s] mode[4] major[4] minor[4] gid[4] -> qid[13]
20 rename fid[4] dfid[4] name[s] ->
22 readlink fid[4] -> target[s]
24 getattr fid[4] request_mask[8] -> valid[8] qid[13] mode[4] uid[4] gid[4] nlink[8] rdev[8] size[8] blksize[8] blocks[8] atime_sec[8] atime_nsec[8] mtime_sec[8] mtime_nsec[8] ctime_sec[8] ctime_nsec[8] btime_sec[8] btime_nsec[8] gen[8] data_version[8]
26 setattr fid[4] valid[4] mode[4] uid[4] gid[4] size[8] atime_sec[8] atime_nsec[8] mtime_sec[8] mtime_nsec[8] ->
30 xattrwalk fid[4] newfid[4] name[s] -> size[8]
32 xattrcreate fid[4] name[s] attr_size[8] flags[4] ->
40 readdir fid[4] offset[8] count[4] -> data[count]
50 fsync fid[4] datasync[4] ->
52 lock fid[4] type[1] flags[4] start[8] length[8] proc_id[4] client_id[s] -> status[1]
54 getlock fid[4] type[1] start[8] length[8] proc_id[4] client_id[s] -> type[1] start[8] length[8] proc_id[4] client_id[s]
70 link dfid[4] fid[4] name[s] ->
72 mkdir dfid[4] name[s] mode[4] gid[4] -> qid[13]
74 renameat olddirfid[4] oldname[s] newdirfid[4] newname[s] ->
76 unlinkat dirfd[4] name[s] flags[4] ->
102 auth afid[4] uname[s] aname[s] n_uname[4] -> aqid[13]
104 attach fid[4] afid[4] uname[s] aname[s] n_uname[4] -> qid[13]
`
	statFields  = "size[2] type[2] dev[4] qid[13] mode[4] atime[4] mtime[4] length[8] name[s] uid[s] gid[s] muid[s]"
	entryFields = "qid[13] offset[8] type[1] name[s]"
)

// A field is one part of a message: its name, and between the brackets what the
// manual has there.
type field struct{ name, form string }

// A layout is the parts of a message in their order.
type layout struct {
	name   string
	kind   byte
	fields []field
}

// parseFields reads "fid[4] wname[s]*".
func parseFields(text string) (list []field) {
	for f := range strings.FieldsSeq(text) {
		name, form, _ := strings.Cut(f, "[")
		list = append(list, field{name, strings.Replace(form, "]", "", 1)})
	}
	return list
}

// index returns where the field called name is.
func (l *layout) index(name string) int {
	for i, f := range l.fields {
		if f.name == name {
			return i
		}
	}
	panic(fmt.Sprintf("%s has no %s", l.name, name))
}

// A dialect is a way to speak 9P.
type dialect struct {
	version string
	byName  map[string]*layout
	byKind  map[byte]*layout
}

func newDialect(version, text string) *dialect {
	d := &dialect{version: version, byName: map[string]*layout{}, byKind: map[byte]*layout{}}
	for line := range strings.Lines(text) {
		ask, answer, ok := strings.Cut(strings.TrimSpace(line), "->")
		if !ok {
			continue
		}
		number, rest, _ := strings.Cut(ask, " ")
		name, rest, _ := strings.Cut(rest, " ")
		kind, _ := strconv.Atoi(number)
		if !strings.HasSuffix(name, "error") {
			d.add(&layout{name: "T" + name, kind: byte(kind), fields: parseFields(rest)})
		}
		d.add(&layout{name: "R" + name, kind: byte(kind) + 1, fields: parseFields(answer)})
	}
	return d
}

func (d *dialect) add(l *layout) { d.byName[l.name], d.byKind[l.kind] = l, l }

// Names of the dialects, as Tversion has them.
const (
	Plan9 = "9P2000"
	Linux = "9P2000.L"
)

func plan9() *dialect { return newDialect(Plan9, shared+onlyPlan9) }
func linux() *dialect { return newDialect(Linux, shared+onlyLinux) }

func (d *dialect) isLinux() bool { return d.version == Linux }
