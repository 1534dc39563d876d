package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"time"

	"agent9/fsys"
)

// How many readers wait at the same time, and on how many connections.
const (
	blockedReaders     = 10_000
	blockedConnections = 100
)

// A crowd is connections on each of which many reads of one agent's trace
// wait, each on a fid of its own.
type crowd struct {
	server  *server
	conns   []*conn
	offsets [][]uint64 // by connection and reader: where the next read is
}

// gather starts agentd with an agent whose trace a crowd reads. bytes is how
// much its memory has grown for a reader.
func (b *bench) gather(ctx context.Context, name string) (c *crowd, bytes float64, err error) {
	s, err := b.startAgentd(ctx, filepath.Join(b.dir, name))
	if err != nil {
		return nil, 0, err
	}
	c = &crowd{server: s}
	defer func() {
		if err != nil {
			c.disperse()
		}
	}()
	client, root, err := s.dial(ctx)
	if err != nil {
		return c, 0, err
	}
	defer client.Close()
	if _, err := createAgent(ctx, root, agentName); err != nil {
		return c, 0, err
	}
	// What the first of them needs is not counted to the readers.
	for range 2 {
		if err := c.join(1); err != nil {
			return c, 0, err
		}
	}
	before, err := s.resident()
	if err != nil {
		return c, 0, err
	}
	for len(c.conns) < blockedConnections+2 {
		if err := c.join(blockedReaders / blockedConnections); err != nil {
			return c, 0, err
		}
	}
	after, err := s.resident()
	return c, (after - before) / blockedReaders, err
}

// join adds a connection with so many readers, and returns when all of their
// reads have been taken.
func (c *crowd) join(readers int) error {
	n, err := attach(c.server, linux, smallMsize)
	if err != nil {
		return err
	}
	c.conns = append(c.conns, n)
	c.offsets = append(c.offsets, make([]uint64, readers))
	for range readers {
		if _, err := n.open(forReading, "agents", agentName, "logs", "trace"); err != nil {
			return err
		}
	}
	return c.wait(len(c.conns) - 1)
}

// wait sends a read for each reader of a connection.
func (c *crowd) wait(i int) error {
	n := c.conns[i]
	var asks []byte
	for r, offset := range c.offsets[i] {
		asks = append(asks, readFrame(uint16(1+r), uint32(1+r), offset, 4096)...)
	}
	if _, err := n.net.Write(asks); err != nil {
		return err
	}
	// A request that is answered at once, behind those that wait.
	_, err := n.rpc(n.attrFrame(0x7000, 0))
	return err
}

// hear takes the answer to each reader of a connection.
func (c *crowd) hear(i int) error {
	for range c.offsets[i] {
		r, err := c.conns[i].reply()
		if err != nil {
			return err
		}
		got := len(r) - readHeader
		if r[4] != tread+1 || got == 0 {
			return fmt.Errorf("a waiting read got reply %d with %d bytes", r[4], got)
		}
		c.offsets[i][binary.LittleEndian.Uint16(r[5:])-1] += uint64(got)
	}
	return nil
}

func (c *crowd) disperse() {
	for _, n := range c.conns {
		n.close()
	}
	c.server.end()
}

// fanoutSuite measures how long one event takes to all who wait for it.
func fanoutSuite(ctx context.Context, b *bench) error {
	c, bytes, err := b.gather(ctx, "fanout")
	if err != nil {
		return err
	}
	defer c.disperse()
	b.found("fanout/memory", bytes/1024, "KiB/reader", aim{"KiB", 6})
	client, root, err := c.server.dial(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	write, err := fsys.WalkPath(ctx, root, "agents/"+agentName+"/logs")
	if err != nil {
		return err
	}
	var last []float64
	for range b.rounds {
		start := time.Now()
		told := make(chan error, 1)
		go func() { told <- fsys.WriteFile(ctx, write, "write", []byte("an event\n")) }() // ends with the write
		err := together(len(c.conns), len(c.conns), c.hear)
		last = append(last, float64(time.Since(start))/1e6)
		if err == nil {
			err = <-told
		}
		if err != nil {
			return err
		}
		if err := together(len(c.conns), len(c.conns), c.wait); err != nil {
			return err
		}
	}
	b.found("fanout/last", median(last), "ms", aim{"ms", 100})
	return nil
}

// flushSuite measures Tflush while all these reads wait: of one of them, and
// how long until Rflush.
func flushSuite(ctx context.Context, b *bench) error {
	c, _, err := b.gather(ctx, "flush")
	if err != nil {
		return err
	}
	defer c.disperse()
	var took []float64
	for i := range 1000 {
		at := i % len(c.conns)
		n, reader := c.conns[at], i/len(c.conns)%len(c.offsets[at])
		tag := uint16(1 + reader)
		start := time.Now()
		r, err := n.rpc(frame(tflush, 0x7001, tag))
		took = append(took, float64(time.Since(start))/1e6)
		if err == nil && r[4] != tflush+1 {
			err = fmt.Errorf("Tflush is answered with %d", r[4])
		}
		if err == nil {
			_, err = n.net.Write(readFrame(tag, uint32(tag), c.offsets[at][reader], 4096))
		}
		if err == nil {
			_, err = n.rpc(n.attrFrame(0x7000, 0))
		}
		if err != nil {
			return err
		}
	}
	b.found("flush/p50", median(took), "ms")
	b.found("flush/p99", quantile(took, 0.99), "ms", aim{"ms", 2})
	return nil
}
