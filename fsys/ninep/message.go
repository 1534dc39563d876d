package ninep

import "fmt"

// A dialect is a way to speak 9P, chosen by Tversion.
type dialect uint8

const (
	plan9 dialect = iota // 9P2000
	linux                // 9P2000.L
)

func (d dialect) String() string {
	if d == linux {
		return "9P2000.L"
	}
	return "9P2000"
}

const (
	noTag = 0xffff
	noFid = 0xffffffff
	noUID = 0xffffffff

	maxNames = 16 // of one Twalk
	// ioHeader is what a reply or request of I/O needs beside its data, as
	// every client counts it (IOHDRSZ).
	ioHeader = 24
	// readHeader is what Rread and Rreaddir really have before their data.
	readHeader = 4 + 1 + 2 + 4

	minMsize = 4096
	maxMsize = 4 << 20
)

// A messageType is the fifth byte of a frame. A reply is its request plus one.
type messageType uint8

const (
	rlerror      messageType = 7
	tstatfs      messageType = 8
	rstatfs      messageType = 9
	tlopen       messageType = 12
	rlopen       messageType = 13
	tlcreate     messageType = 14
	rlcreate     messageType = 15
	tsymlink     messageType = 16
	rsymlink     messageType = 17
	tmknod       messageType = 18
	rmknod       messageType = 19
	trename      messageType = 20
	rrename      messageType = 21
	treadlink    messageType = 22
	rreadlink    messageType = 23
	tgetattr     messageType = 24
	rgetattr     messageType = 25
	tsetattr     messageType = 26
	rsetattr     messageType = 27
	txattrwalk   messageType = 30
	rxattrwalk   messageType = 31
	txattrcreate messageType = 32
	rxattrcreate messageType = 33
	treaddir     messageType = 40
	rreaddir     messageType = 41
	tfsync       messageType = 50
	rfsync       messageType = 51
	tlock        messageType = 52
	rlock        messageType = 53
	tgetlock     messageType = 54
	rgetlock     messageType = 55
	tlink        messageType = 70
	rlink        messageType = 71
	tmkdir       messageType = 72
	rmkdir       messageType = 73
	trenameat    messageType = 74
	rrenameat    messageType = 75
	tunlinkat    messageType = 76
	runlinkat    messageType = 77

	tversion messageType = 100
	rversion messageType = 101
	tauth    messageType = 102
	rauth    messageType = 103
	tattach  messageType = 104
	rattach  messageType = 105
	rerror   messageType = 107
	tflush   messageType = 108
	rflush   messageType = 109
	twalk    messageType = 110
	rwalk    messageType = 111
	topen    messageType = 112
	ropen    messageType = 113
	tcreate  messageType = 114
	rcreate  messageType = 115
	tread    messageType = 116
	rread    messageType = 117
	twrite   messageType = 118
	rwrite   messageType = 119
	tclunk   messageType = 120
	rclunk   messageType = 121
	tremove  messageType = 122
	rremove  messageType = 123
	tstat    messageType = 124
	rstat    messageType = 125
	twstat   messageType = 126
	rwstat   messageType = 127
)

// typeNames has the operations by the type of their request; speaks says who
// knows them.
var typeNames = map[messageType]struct {
	name string
	in   [2]bool // by dialect
}{
	6:            {"lerror", [2]bool{linux: true}},
	tstatfs:      {"statfs", [2]bool{linux: true}},
	tlopen:       {"lopen", [2]bool{linux: true}},
	tlcreate:     {"lcreate", [2]bool{linux: true}},
	tsymlink:     {"symlink", [2]bool{linux: true}},
	tmknod:       {"mknod", [2]bool{linux: true}},
	trename:      {"rename", [2]bool{linux: true}},
	treadlink:    {"readlink", [2]bool{linux: true}},
	tgetattr:     {"getattr", [2]bool{linux: true}},
	tsetattr:     {"setattr", [2]bool{linux: true}},
	txattrwalk:   {"xattrwalk", [2]bool{linux: true}},
	txattrcreate: {"xattrcreate", [2]bool{linux: true}},
	treaddir:     {"readdir", [2]bool{linux: true}},
	tfsync:       {"fsync", [2]bool{linux: true}},
	tlock:        {"lock", [2]bool{linux: true}},
	tgetlock:     {"getlock", [2]bool{linux: true}},
	tlink:        {"link", [2]bool{linux: true}},
	tmkdir:       {"mkdir", [2]bool{linux: true}},
	trenameat:    {"renameat", [2]bool{linux: true}},
	tunlinkat:    {"unlinkat", [2]bool{linux: true}},
	tversion:     {"version", [2]bool{true, true}},
	tauth:        {"auth", [2]bool{true, true}},
	tattach:      {"attach", [2]bool{true, true}},
	106:          {"error", [2]bool{plan9: true}},
	tflush:       {"flush", [2]bool{true, true}},
	twalk:        {"walk", [2]bool{true, true}},
	topen:        {"open", [2]bool{plan9: true}},
	tcreate:      {"create", [2]bool{plan9: true}},
	tread:        {"read", [2]bool{true, true}},
	twrite:       {"write", [2]bool{true, true}},
	tclunk:       {"clunk", [2]bool{true, true}},
	tremove:      {"remove", [2]bool{true, true}},
	tstat:        {"stat", [2]bool{plan9: true}},
	twstat:       {"wstat", [2]bool{plan9: true}},
}

// known holds typeNames by type, requests and replies; there is no Tlerror
// and no Terror.
var known = func() (k [256][2]bool) {
	for t, v := range typeNames {
		k[t], k[t+1] = v.in, v.in
	}
	k[6], k[106] = [2]bool{}, [2]bool{}
	return k
}()

func (t messageType) String() string {
	v, ok := typeNames[t&^1]
	if !ok {
		return fmt.Sprintf("type %d", uint8(t))
	}
	if t&1 == 0 {
		return "T" + v.name
	}
	return "R" + v.name
}

// A message is any request or reply, decoded. Which fields count depends on
// Type; see fields in layout.go. The slices Data, Names and Qids may share
// memory with the frame or with the message itself: they hold until either is
// used again.
type message struct {
	Type messageType
	Tag  uint16

	Fid    uint32
	NewFid uint32
	Afid   uint32
	DirFid uint32 // newdirfid of Trenameat, dfid of Trename, Tlink, Tsymlink …
	OldTag uint16

	Msize   uint32
	Version string
	Uname   string
	Aname   string
	NUname  uint32

	Ename string
	Ecode uint32 // a Linux errno

	Names  []string // of Twalk
	Qids   []qid    // of Rwalk
	Qid    qid
	Iounit uint32

	Name    string
	NewName string
	Target  string
	Mode    uint32 // of open, create; Linux permissions in mkdir, mknod
	Perm    uint32 // of Tcreate
	Flags   uint32 // Linux open flags; AT_ flags of Tunlinkat; of Tlock
	Gid     uint32
	Major   uint32
	Minor   uint32

	Offset uint64
	Count  uint32
	Data   []byte

	Size   uint64 // of Rxattrwalk, Txattrcreate
	Sync   uint32 // datasync of Tfsync
	Valid  uint64 // mask of Tgetattr, Rgetattr and Tsetattr
	Stat   dir
	Attr   attr
	Set    setAttr
	Statfs statfs
	Lock   lockRange
	Status uint8 // of Rlock

	names [maxNames]string
	qids  [maxNames]qid
}

// A statfs is the body of Rstatfs, as in statfs(2).
type statfs struct {
	Type, Bsize                         uint32
	Blocks, Bfree, Bavail, Files, Ffree uint64
	Fsid                                uint64
	NameLen                             uint32
}

// A lockRange is what Tlock and Tgetlock ask for, as in fcntl(2).
type lockRange struct {
	Type          uint8
	Start, Length uint64 // Length 0 is to the end of the file
	ProcID        uint32
	ClientID      string
}
