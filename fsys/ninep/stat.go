package ninep

import (
	"io/fs"
	"math"
)

// A dir is a stat(5) entry of 9P2000. In a Twstat, a string that is empty and
// a number that is all ones mean "don't touch".
type dir struct {
	Type   uint16
	Dev    uint32
	Qid    qid
	Mode   uint32
	Atime  uint32
	Mtime  uint32
	Length uint64
	Name   string
	UID    string
	GID    string
	MUID   string
}

// keepDir is a Twstat that changes nothing.
func keepDir() dir {
	return dir{
		Type: math.MaxUint16, Dev: math.MaxUint32,
		Qid:  qid{Type: math.MaxUint8, Version: math.MaxUint32, Path: math.MaxUint64},
		Mode: math.MaxUint32, Atime: math.MaxUint32, Mtime: math.MaxUint32,
		Length: math.MaxUint64,
	}
}

// dir codes one entry with its own size[2], as it is in a directory's data.
func (c *coder) dir(d *dir) {
	end := c.sized()
	c.u16(&d.Type)
	c.u32(&d.Dev)
	c.qid(&d.Qid)
	c.u32(&d.Mode)
	c.u32(&d.Atime)
	c.u32(&d.Mtime)
	c.u64(&d.Length)
	c.str(&d.Name)
	c.str(&d.UID)
	c.str(&d.GID)
	c.str(&d.MUID)
	c.endSized(end)
}

// sizedDir is a dir in Rstat and Twstat, where its size is given once more.
func (c *coder) sizedDir(d *dir) {
	end := c.sized()
	c.dir(d)
	c.endSized(end)
}

// appendDir appends a directory entry to b.
func appendDir(b []byte, d *dir) []byte {
	c := coder{encoding: true, b: b}
	c.dir(d)
	return c.b
}

// decodeDir decodes the first entry of a directory's data and returns what
// comes after it.
func decodeDir(b []byte, d *dir) (rest []byte, err error) {
	c := coder{b: b}
	c.dir(d)
	return c.b, c.err
}

// A dirent is an entry of Rreaddir. Offset is where the next one is.
type dirent struct {
	Qid    qid
	Offset uint64
	Type   uint8 // d_type of readdir(3)
	Name   string
}

func (c *coder) dirent(e *dirent) {
	c.qid(&e.Qid)
	c.u64(&e.Offset)
	c.u8(&e.Type)
	c.str(&e.Name)
}

func appendDirent(b []byte, e *dirent) []byte {
	c := coder{encoding: true, b: b}
	c.dirent(e)
	return c.b
}

// decodeDirent decodes the first entry of Rreaddir's data and returns what
// comes after it.
func decodeDirent(b []byte, e *dirent) (rest []byte, err error) {
	c := coder{b: b}
	c.dirent(e)
	return c.b, c.err
}

// An attr is the body of Rgetattr after its mask and qid.
type attr struct {
	Mode, UID, GID          uint32
	Nlink, Rdev             uint64
	Size, Blksize, Blocks   uint64
	AtimeSec, AtimeNsec     uint64
	MtimeSec, MtimeNsec     uint64
	CtimeSec, CtimeNsec     uint64
	BtimeSec, BtimeNsec     uint64
	Generation, DataVersion uint64
}

func (a *attr) fields(c *coder) {
	c.u32(&a.Mode)
	c.u32(&a.UID)
	c.u32(&a.GID)
	for _, v := range [...]*uint64{
		&a.Nlink, &a.Rdev, &a.Size, &a.Blksize, &a.Blocks,
		&a.AtimeSec, &a.AtimeNsec, &a.MtimeSec, &a.MtimeNsec,
		&a.CtimeSec, &a.CtimeNsec, &a.BtimeSec, &a.BtimeNsec,
		&a.Generation, &a.DataVersion,
	} {
		c.u64(v)
	}
}

// A setAttr is the body of Tsetattr after its mask.
type setAttr struct {
	Mode, UID, GID      uint32
	Size                uint64
	AtimeSec, AtimeNsec uint64
	MtimeSec, MtimeNsec uint64
}

func (s *setAttr) fields(c *coder) {
	c.u32(&s.Mode)
	c.u32(&s.UID)
	c.u32(&s.GID)
	c.u64(&s.Size)
	c.u64(&s.AtimeSec)
	c.u64(&s.AtimeNsec)
	c.u64(&s.MtimeSec)
	c.u64(&s.MtimeNsec)
}

// Bits of the masks of getattr and setattr.
const (
	getBasic = 0x7ff // mode … blocks
	getGen   = 0x1000
	getVers  = 0x2000

	setMode    = 0x1
	setUID     = 0x2
	setGID     = 0x4
	setSize    = 0x8
	setAtime   = 0x10
	setMtime   = 0x20
	setCtime   = 0x40
	setAtimeTo = 0x80 // to the time given, not to now
	setMtimeTo = 0x100
)

// File types in the mode of Linux, and d_type, which is the mode >> 12.
const (
	modeDir  = 0o040000
	modeFile = 0o100000
)

// linuxMode returns perm with the file type that t says. Everything that is
// not a directory is a regular file: Linux has no other type that one opens,
// reads and writes like one.
func linuxMode(t uint8, perm fs.FileMode) uint32 {
	if t&qtDir != 0 {
		return modeDir | uint32(perm.Perm())
	}
	return modeFile | uint32(perm.Perm())
}
