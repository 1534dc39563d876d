package main

import (
	"encoding/binary"
	"net"
)

// floorCommand makes agentbench the server that everything is held against.
const floorCommand = "serve-the-floor"

// floor listens at a Unix socket and answers what looks like Tread and Twrite
// with as many bytes as a 9P server would, and does nothing else: one read(2),
// one write(2).
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
	in := make([]byte, maxMsize)
	out := make([]byte, maxMsize)
	for {
		have := 0
		for size := 4; have < size; {
			n, err := nc.Read(in[have:])
			if err != nil {
				return
			}
			if have += n; have >= 4 {
				size = int(binary.LittleEndian.Uint32(in))
			}
			if size > len(in) {
				return
			}
		}
		n := twriteReply
		if in[4] == tread {
			n = readHeader + int(binary.LittleEndian.Uint32(in[19:]))
		}
		if n > len(out) {
			return
		}
		binary.LittleEndian.PutUint32(out, uint32(n))
		out[4] = in[4] + 1
		copy(out[5:7], in[5:7])
		if _, err := nc.Write(out[:n]); err != nil {
			return
		}
	}
}
