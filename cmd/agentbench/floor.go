package main

import (
	"encoding/binary"
	"net"
)

// floorCommand makes agentbench the server that everything is held against.
const floorCommand = "serve-the-floor"

// floor listens at a Unix socket and answers what looks like a request with as
// many bytes as a 9P server would, and does nothing else: one read(2), one
// write(2) for all that one read gave.
func floor(path string) error {
	l, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	for {
		nc, err := l.Accept()
		if err != nil {
			return err
		}
		go bounce(nc)
	}
}

// bounce ends with the connection.
func bounce(nc net.Conn) {
	defer nc.Close()
	in, out := make([]byte, 64<<10), make([]byte, 64<<10)
	have := 0
	for {
		n, err := nc.Read(in[have:])
		if err != nil {
			return
		}
		have += n
		at, answered := 0, 0
		for have-at >= 4 {
			size := int(binary.LittleEndian.Uint32(in[at:]))
			if size < 7 || size > maxMsize {
				return
			}
			if size > len(in) {
				in = append(in, make([]byte, size-len(in))...)
			}
			if have-at < size {
				break
			}
			reply := replySize(in[at : at+size])
			if reply > maxMsize {
				return
			}
			if answered+reply > len(out) {
				out = append(out, make([]byte, answered+reply-len(out))...)
			}
			binary.LittleEndian.PutUint32(out[answered:], uint32(reply))
			out[answered+4] = in[at+4] + 1
			copy(out[answered+5:], in[at+5:at+7])
			at += size
			answered += reply
		}
		have = copy(in, in[at:have])
		if answered == 0 {
			continue
		}
		if _, err := nc.Write(out[:answered]); err != nil {
			return
		}
	}
}

// replySize is how long the answer to a request is.
func replySize(ask []byte) int {
	switch ask[4] {
	case tread:
		return readHeader + int(binary.LittleEndian.Uint32(ask[19:]))
	case tgetattr:
		return getattrReply
	}
	return twriteReply // and about what others are
}
