package main

import (
	"context"
	"fmt"
)

// bulkFigures are those of whole files of 1 MiB, with the largest messages that
// client and server agree on.
func bulkFigures(ctx context.Context, b *bench, servers []*server, floor *server) error {
	aims := []aim{{"diod", 1}, {"p9ufs", 1}, {"floor", 1 / 0.85}}
	all := append(append([]*server{}, servers...), floor)
	if err := b.compare(ctx, "read1M", linux, maxMsize, all, readLarge, aims...); err != nil {
		return err
	}
	if err := b.compare(ctx, "write1M", linux, maxMsize, all, writeLarge, aims...); err != nil {
		return err
	}
	return b.compare(ctx, "write1M/durable", linux, maxMsize, servers, writeDurably, aims[:2]...)
}

// inPieces calls f with each part of a large file that a message can carry.
func (c *conn) inPieces(f func(offset uint64, count uint32) error) error {
	most := c.msize - ioHeader
	for offset := uint32(0); offset < largeSize; offset += most {
		if err := f(uint64(offset), min(most, largeSize-offset)); err != nil {
			return err
		}
	}
	return nil
}

func readLarge(c *conn) (func() error, error) {
	fid, err := c.open(forReading, largeFile)
	if err != nil {
		return nil, err
	}
	return func() error {
		return c.inPieces(func(offset uint64, count uint32) error {
			r, err := c.rpc(readFrame(1, fid, offset, count))
			if err == nil && len(r) != readHeader+int(count) {
				err = fmt.Errorf("a read of %d bytes gave %d", count, len(r)-readHeader)
			}
			return err
		})
	}, nil
}

// writeLarge returns when the server says so; agentd says so when it is on
// disk, the others when their kernel has it.
func writeLarge(c *conn) (func() error, error) {
	fid, err := c.open(forWriting, blankFile)
	if err != nil {
		return nil, err
	}
	var asks [][]byte
	data := make([]byte, largeSize)
	c.inPieces(func(offset uint64, count uint32) error {
		asks = append(asks, frame(twrite, 1, fid, offset, count, data[:count]))
		return nil
	})
	return func() error {
		for _, ask := range asks {
			if _, err := c.rpc(ask); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// writeDurably is writeLarge followed by what fsync(2) sends.
func writeDurably(c *conn) (func() error, error) {
	write, err := writeLarge(c)
	if err != nil {
		return nil, err
	}
	fid := c.fids
	return func() error {
		if err := write(); err != nil {
			return err
		}
		_, err := c.rpc(frame(tfsync, 1, fid, uint32(0)))
		return err
	}, nil
}
