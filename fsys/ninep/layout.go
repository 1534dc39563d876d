package ninep

// fields runs c over the fields of m in the order in which they are on the
// wire: one description for encoding and decoding, so that the two cannot
// disagree. Sources: Plan 9's manual, section 5, and Linux's net/9p.
func (m *message) fields(c *coder, d dialect) {
	switch m.Type {
	case tversion, rversion:
		c.u32(&m.Msize)
		c.str(&m.Version)
	case tauth:
		c.u32(&m.Afid)
		c.str(&m.Uname)
		c.str(&m.Aname)
		m.nUname(c, d)
	case tattach:
		c.u32(&m.Fid)
		c.u32(&m.Afid)
		c.str(&m.Uname)
		c.str(&m.Aname)
		m.nUname(c, d)
	case rauth, rattach, rsymlink, rmknod, rmkdir:
		c.qid(&m.Qid)
	case rerror:
		c.str(&m.Ename)
	case rlerror:
		c.u32(&m.Ecode)
	case tflush:
		c.u16(&m.OldTag)
	case twalk:
		c.u32(&m.Fid)
		c.u32(&m.NewFid)
		m.walkNames(c)
	case rwalk:
		m.walkQids(c)
	case topen:
		c.u32(&m.Fid)
		c.byteOf(&m.Mode)
	case ropen, rcreate, rlopen, rlcreate:
		c.qid(&m.Qid)
		c.u32(&m.Iounit)
	case tcreate:
		c.u32(&m.Fid)
		c.str(&m.Name)
		c.u32(&m.Perm)
		c.byteOf(&m.Mode)
	case tread, treaddir:
		c.u32(&m.Fid)
		c.u64(&m.Offset)
		c.u32(&m.Count)
	case rread, rreaddir:
		c.data(&m.Data)
	case twrite:
		c.u32(&m.Fid)
		c.u64(&m.Offset)
		c.data(&m.Data)
	case rwrite:
		c.u32(&m.Count)
	case tclunk, tremove, tstat, tstatfs, treadlink:
		c.u32(&m.Fid)
	case rstat:
		c.sizedDir(&m.Stat)
	case twstat:
		c.u32(&m.Fid)
		c.sizedDir(&m.Stat)
	case rflush, rclunk, rremove, rwstat, rrename, rsetattr, rxattrcreate,
		rfsync, rlink, rrenameat, runlinkat:
	default:
		m.linuxFields(c)
	}
}

// linuxFields are those of messages that only 9P2000.L has.
func (m *message) linuxFields(c *coder) {
	switch m.Type {
	case rstatfs:
		m.Statfs.fields(c)
	case tlopen:
		c.u32(&m.Fid)
		c.u32(&m.Flags)
	case tlcreate:
		c.u32(&m.Fid)
		c.str(&m.Name)
		c.u32(&m.Flags)
		c.u32(&m.Mode)
		c.u32(&m.Gid)
	case tsymlink:
		c.u32(&m.DirFid)
		c.str(&m.Name)
		c.str(&m.Target)
		c.u32(&m.Gid)
	case tmknod:
		c.u32(&m.DirFid)
		c.str(&m.Name)
		c.u32(&m.Mode)
		c.u32(&m.Major)
		c.u32(&m.Minor)
		c.u32(&m.Gid)
	case trename:
		c.u32(&m.Fid)
		c.u32(&m.DirFid)
		c.str(&m.Name)
	case rreadlink:
		c.str(&m.Target)
	case tgetattr:
		c.u32(&m.Fid)
		c.u64(&m.Valid)
	case rgetattr:
		c.u64(&m.Valid)
		c.qid(&m.Qid)
		m.Attr.fields(c)
	case tsetattr:
		c.u32(&m.Fid)
		c.low32(&m.Valid)
		m.Set.fields(c)
	case txattrwalk:
		c.u32(&m.Fid)
		c.u32(&m.NewFid)
		c.str(&m.Name)
	case rxattrwalk:
		c.u64(&m.Size)
	case txattrcreate:
		c.u32(&m.Fid)
		c.str(&m.Name)
		c.u64(&m.Size)
		c.u32(&m.Flags)
	case tfsync:
		c.u32(&m.Fid)
		c.optional32(&m.Sync) // old clients do not send it
	case tlock:
		c.u32(&m.Fid)
		c.u8(&m.Lock.Type)
		c.u32(&m.Flags)
		m.Lock.rest(c)
	case rlock:
		c.u8(&m.Status)
	case tgetlock:
		c.u32(&m.Fid)
		c.u8(&m.Lock.Type)
		m.Lock.rest(c)
	case rgetlock:
		c.u8(&m.Lock.Type)
		m.Lock.rest(c)
	case tlink:
		c.u32(&m.DirFid)
		c.u32(&m.Fid)
		c.str(&m.Name)
	case tmkdir:
		c.u32(&m.DirFid)
		c.str(&m.Name)
		c.u32(&m.Mode)
		c.u32(&m.Gid)
	case trenameat:
		c.u32(&m.Fid)
		c.str(&m.Name)
		c.u32(&m.DirFid)
		c.str(&m.NewName)
	case tunlinkat:
		c.u32(&m.DirFid)
		c.str(&m.Name)
		c.u32(&m.Flags)
	}
}

// nUname is there in 9P2000.L. A client of 9P2000 that wanted 9P2000.u may send
// it too; it is not believed.
func (m *message) nUname(c *coder, d dialect) {
	if d == linux {
		c.u32(&m.NUname)
	} else if !c.encoding {
		c.optional32(&m.NUname)
		m.NUname = noUID
	}
}

func (m *message) walkNames(c *coder) {
	n := uint16(len(m.Names))
	if c.u16(&n); n > maxNames {
		c.fail("a walk of more than 16 names")
		return
	}
	if !c.encoding {
		m.Names = m.names[:n]
	}
	for i := range m.Names {
		c.str(&m.Names[i])
	}
}

func (m *message) walkQids(c *coder) {
	n := uint16(len(m.Qids))
	if c.u16(&n); n > maxNames {
		c.fail("a walk of more than 16 names")
		return
	}
	if !c.encoding {
		m.Qids = m.qids[:n]
	}
	for i := range m.Qids {
		c.qid(&m.Qids[i])
	}
}

func (s *statfs) fields(c *coder) {
	c.u32(&s.Type)
	c.u32(&s.Bsize)
	c.u64(&s.Blocks)
	c.u64(&s.Bfree)
	c.u64(&s.Bavail)
	c.u64(&s.Files)
	c.u64(&s.Ffree)
	c.u64(&s.Fsid)
	c.u32(&s.NameLen)
}

func (l *lockRange) rest(c *coder) {
	c.u64(&l.Start)
	c.u64(&l.Length)
	c.u32(&l.ProcID)
	c.str(&l.ClientID)
}
