package web

import (
	"encoding/base64"
	"io/fs"
	"strings"
	"time"
	"unicode/utf8"

	"agent9/fsys"
)

// A Frame is a message of the conversation on a WebSocket, as JSON text. The
// client's frames are requests; each is answered with one frame of the same
// id, but for watch, which is answered with many. Requests are performed side
// by side, and what one waits for delays no other.
//
//	stat     path or file         info
//	list     path                 entries
//	open     path, mode, perm     info; the id is from then on the number of the file
//	read     file, offset, count  data and its offset, or eof
//	write    file, offset, data   count
//	sync     file                 what was written is whole
//	close    file                 sync, and then the number is free
//	drop     file                 the number is free; a request that is not whole does not act
//	watch    file, offset, credit data as it comes, until eof
//	credit   of, credit           so many bytes more may be sent by the watch of
//	mkdir    path, perm           info
//	remove   path
//	rename   path, to             to is a name in the same directory
//	truncate path, size
//	setattr  path, perm, mtime
//	cancel   of                   the request of ends, and says so
//
// mode has r to read, w to write, t to empty the file first, a to append, c to
// make it with perm if it does not exist, x to fail if it does.
//
// A watch sends no more than its credit: who does not read holds up this file
// and no other. Data that is not UTF-8 is in base64 instead.
type Frame struct {
	ID     int64  `json:"id"`
	Op     string `json:"op,omitempty"`
	Path   string `json:"path,omitempty"`
	File   *int64 `json:"file,omitempty"`
	Of     int64  `json:"of,omitempty"`
	To     string `json:"to,omitempty"`
	Mode   string `json:"mode,omitempty"`
	Perm   *int64 `json:"perm,omitempty"`
	MTime  string `json:"mtime,omitempty"`
	Offset int64  `json:"offset,omitempty"`
	Count  int64  `json:"count,omitempty"`
	Size   int64  `json:"size,omitempty"`
	Credit int64  `json:"credit,omitempty"`

	Data    string      `json:"data,omitempty"`
	Base64  string      `json:"base64,omitempty"`
	EOF     bool        `json:"eof,omitempty"`
	Info    *FrameInfo  `json:"info,omitempty"`
	Entries []FrameInfo `json:"entries,omitempty"`
	Error   *FrameError `json:"error,omitempty"`

	bytes int64 // taken for it
}

// FrameInfo describes a file.
type FrameInfo struct {
	Name    string `json:"name,omitempty"`
	Kind    string `json:"kind"`
	Size    int64  `json:"size"`
	Perm    int64  `json:"perm"`
	MTime   string `json:"mtime,omitempty"`
	Version uint32 `json:"version,omitempty"`
	Gen     uint64 `json:"gen,omitempty"`
	Unsafe  bool   `json:"unsafe,omitempty"` // see fsys.Info.Safe: mounts do not list it
}

// FrameError is why a request failed.
type FrameError struct {
	Code   string `json:"code"`
	Reason string `json:"reason,omitempty"`
}

func frameInfo(name string, info fsys.Info) FrameInfo {
	f := FrameInfo{Name: name, Kind: info.Kind.String(), Size: info.Size, Perm: int64(info.Perm.Perm()), Version: info.Version, Gen: info.Gen, Unsafe: !info.Safe()}
	if !info.ModTime.IsZero() {
		f.MTime = info.ModTime.UTC().Format(time.RFC3339Nano)
	}
	return f
}

// carry puts p into f.
func (f *Frame) carry(p []byte) {
	if utf8.Valid(p) {
		f.Data = string(p)
	} else {
		f.Base64 = base64.StdEncoding.EncodeToString(p)
	}
}

// tells reports whether f has something of the tree in it.
func (f *Frame) tells() bool {
	return f.Data != "" || f.Base64 != "" || f.Info != nil || f.Entries != nil
}

// payload is what f carries.
func (f *Frame) payload() ([]byte, error) {
	if f.Base64 == "" {
		return []byte(f.Data), nil
	}
	p, err := base64.StdEncoding.DecodeString(f.Base64)
	return p, fsys.Wrap(fsys.Invalid, "base64", err)
}

// count is how much a read may return.
func (f *Frame) count() int64 {
	if f.Count <= 0 || f.Count > maxRead {
		return maxRead
	}
	return f.Count
}

// cost is about what f takes that it does not carry: of a read the data, as it
// is read, in the answer, and as JSON.
func (f *Frame) cost() int64 {
	if f.Op == "read" {
		return askBytes + 3*f.count()
	}
	return askBytes
}

// names are those in Path.
func (f *Frame) names() ([]string, error) {
	path := strings.TrimPrefix(f.Path, "/")
	if path == "" {
		return nil, nil
	}
	names := strings.Split(path, "/")
	for _, name := range names {
		if err := fsys.CheckName(name); err != nil {
			return nil, fsys.Wrap(fsys.Invalid, "the path", err)
		}
	}
	return names, nil
}

func (f *Frame) perm(or fs.FileMode) fs.FileMode {
	if f.Perm == nil {
		return or
	}
	return fs.FileMode(*f.Perm).Perm()
}

// flags reads Mode.
func (f *Frame) flags() (flag fsys.Flag, create bool, err error) {
	for _, c := range f.Mode {
		switch c {
		case 'r':
			flag |= fsys.Read
		case 'w':
			flag |= fsys.Write
		case 't':
			flag |= fsys.Trunc
		case 'a':
			flag |= fsys.Append
		case 'x':
			flag |= fsys.Excl
		case 'c':
			create = true
		default:
			return 0, false, fsys.E(fsys.Invalid, "mode must consist of the letters r w t a c x, not "+shortened(f.Mode))
		}
	}
	if f.Mode == "" {
		flag = fsys.Read
	}
	return flag, create, nil
}
