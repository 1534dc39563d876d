package sandboxes

import (
	"encoding/binary"
	"encoding/json"

	"agent9/fsys"
)

// Protocol is the version of what a box and its Box say to each other.
const Protocol = 1

// A Setup is what a driver tells the box that it starts.
type Setup struct {
	Where Where `json:"where"`
	// Confined serves Where.Root as a directory that nothing leads out of, for
	// a sandbox that has the file system of the machine.
	Confined bool `json:"confined,omitempty"`
	// Disk is how many bytes the workspace may have on its disk, for a driver
	// that cannot bound it otherwise. Zero is any number. See package box.
	Disk int64 `json:"disk,omitempty"`
	// Measured is the file of the box that says how many bytes that are, again
	// and again, one number to a line. Zero: the box measures them itself.
	Measured int `json:"measured,omitempty"`
}

// Argv is the command line that starts the box; helper is where cmd/a9 is.
func (s Setup) Argv(helper string) []string {
	line, err := json.Marshal(s)
	if err != nil {
		panic(err) // it has strings only
	}
	return []string{helper, "box", string(line)}
}

// An Identity is what the box says of itself in its file info.
type Identity struct {
	Protocol int    `json:"protocol"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
	Where    Where  `json:"where"`
	// SeesOOM says that the box itself knows of the commands that the kernel
	// ended for want of memory.
	SeesOOM bool `json:"sees_oom,omitempty"`
}

// An Order is what is written to run/new.
type Order struct {
	Command
	// Stdin says that run/<n>/stdin will be opened; else there is none.
	Stdin bool `json:"stdin,omitempty"`
}

// An Outcome is what is read from run/<n>/wait.
type Outcome struct {
	Exit
	// Failure is why there was no process, and Code its fsys.Code by name.
	Failure string `json:"failure,omitempty"`
	Class   string `json:"class,omitempty"`
}

// Err is Failure as an error.
func (o Outcome) Err() error {
	if o.Failure == "" {
		return nil
	}
	return fsys.E(fsys.CodeNamed(o.Class, fsys.Unavailable), o.Failure)
}

// FrameHeader is how many bytes go before each piece of run/<n>/out: which of
// the command's files it was written to, and its length, the most significant
// byte first. MaxFrame is the longest piece.
const (
	FrameHeader = 5
	MaxFrame    = 64 << 10
)

// AppendFrame appends the frame of p, which is up to MaxFrame long.
func AppendFrame(to []byte, fd int, p []byte) []byte {
	to = append(to, byte(fd))
	to = binary.BigEndian.AppendUint32(to, uint32(len(p)))
	return append(to, p...)
}

// frames takes frames apart that come in arbitrary pieces.
type frames struct {
	rest []byte // the beginning of a frame
}

// feed gives out every piece that p completes.
func (f *frames) feed(p []byte, out func(fd int, p []byte) error) error {
	if len(f.rest) > 0 {
		p = append(f.rest, p...)
	}
	for len(p) >= FrameHeader {
		n := binary.BigEndian.Uint32(p[1:])
		if p[0] != 1 && p[0] != 2 || n > MaxFrame {
			return fsys.E(fsys.Unavailable, "the sandbox sent malformed output")
		}
		end := FrameHeader + int(n)
		if len(p) < end {
			break
		}
		if err := out(int(p[0]), p[FrameHeader:end]); err != nil {
			return err
		}
		p = p[end:]
	}
	f.rest = append(f.rest[:0:0], p...)
	return nil
}
