package main

import (
	"context"
	"fmt"
	"path/filepath"
)

// wireSuite measures what a 9P client sees of agentd, of the servers of others
// and of a socket with nothing behind it.
func wireSuite(ctx context.Context, b *bench) error {
	agentd, err := b.startAgentd(ctx, filepath.Join(b.dir, "wire"))
	if err != nil {
		return err
	}
	defer agentd.end()
	if err := furnish(ctx, agentd); err != nil {
		return err
	}
	disk := filepath.Join(b.dir, "files")
	if err := onDisk(disk); err != nil {
		return err
	}
	floor, err := b.startFloor(ctx)
	if err != nil {
		return err
	}
	defer floor.end()
	all := append([]*server{agentd}, b.startPeers(ctx, disk)...)
	defer func() {
		for _, s := range all[1:] {
			s.end()
		}
	}()
	for _, part := range []func(context.Context, *bench, []*server, *server) error{
		smallFigures, loadFigures, bulkFigures,
	} {
		if err := part(ctx, b, all, floor); err != nil {
			return err
		}
	}
	return nil
}

// An operation prepares something to be done again and again on c.
type operation func(c *conn) (func() error, error)

// subjects connects to those of servers that speak d, and prepares op on each.
// What it returns closes the connections.
func subjects(d dialect, msize uint32, servers []*server, op operation) ([]subject, func(), error) {
	var all []subject
	var conns []*conn
	hangUp := func() {
		for _, c := range conns {
			c.close()
		}
	}
	for _, s := range servers {
		if !s.speaks(d) {
			continue
		}
		c, err := attach(s, d, msize)
		if err == nil {
			conns = append(conns, c)
			err = c.enter(s.dir)
		}
		var do func() error
		if err == nil {
			do, err = op(c)
		}
		if err != nil {
			hangUp()
			return nil, nil, fmt.Errorf("%s: %w", s.name, err)
		}
		all = append(all, subject{name: s.name, spent: s.spent, do: func(_ context.Context, n int) error {
			for range n {
				if err := do(); err != nil {
					return err
				}
			}
			return nil
		}})
	}
	return all, hangUp, nil
}

// compare measures op on servers by turns.
func (b *bench) compare(ctx context.Context, figure string, d dialect, msize uint32, servers []*server, op operation, aims ...aim) error {
	if !b.wants(figure) {
		return nil
	}
	all, hangUp, err := subjects(d, msize, servers, op)
	if err != nil {
		return fmt.Errorf("%s: %w", figure, err)
	}
	defer hangUp()
	return b.byTurns(ctx, figure, all, aims...)
}

// smallMsize is for all but whole files.
const smallMsize = 64 << 10

// smallFigures are those of one request at a time.
func smallFigures(ctx context.Context, b *bench, servers []*server, floor *server) error {
	err := b.compare(ctx, "read64/snapshot", linux, smallMsize, []*server{servers[0], floor}, readSnapshot, aim{"floor", 1.3})
	if err != nil {
		return err
	}
	disks := []aim{{"p9ufs", 0.5}, {"diod", 1}}
	beside := append(disks[:2:2], aim{"floor", 0})
	all := append(append([]*server{}, servers...), floor)
	plan9s := []aim{{"export9p", 0.5}}
	for _, f := range []struct {
		name    string
		op      operation
		servers []*server
		aims    []aim
	}{
		{"getattr", getattr, all, beside},
		{"read64", readSmall, all, beside},
		{"walkopen", walkOpen, all, beside},
		{"readdir1000", listMany, servers, disks},
	} {
		if err := b.compare(ctx, f.name, linux, smallMsize, f.servers, f.op, f.aims...); err != nil {
			return err
		}
		if err := b.compare(ctx, "9P2000/"+f.name, plan9, smallMsize, servers, f.op, plan9s...); err != nil {
			return err
		}
	}
	return nil
}

// enter makes fid 0 the directory of the files.
func (c *conn) enter(dir []string) error {
	if len(dir) == 0 {
		return nil
	}
	return c.walk(0, 0, dir...)
}

// repeat sends the same request each time.
func repeat(c *conn, ask []byte) func() error {
	return func() error {
		_, err := c.rpc(ask)
		return err
	}
}

// readSnapshot reads 64 of the 65 bytes of the agent's public key, and as many
// from the floor.
func readSnapshot(c *conn) (func() error, error) {
	if c.bare {
		return repeat(c, readFrame(1, 1, 0, smallSize)), nil
	}
	fid, err := c.open(forReading, "..", "identity", "pubkey")
	return repeat(c, readFrame(1, fid, 0, smallSize)), err
}

func getattr(c *conn) (func() error, error) {
	fid := c.newFid()
	err := c.walk(0, fid, smallFile)
	return repeat(c, c.attrFrame(1, fid)), err
}

func readSmall(c *conn) (func() error, error) {
	fid, err := c.open(forReading, smallFile)
	return repeat(c, readFrame(1, fid, 0, smallSize)), err
}

// walkOpen is what cat of a small file needs: four requests.
func walkOpen(c *conn) (func() error, error) {
	fid := c.newFid()
	asks := [][]byte{walkFrame(0, fid, smallFile), c.openFrame(fid, forReading), readFrame(1, fid, 0, 4096), frame(tclunk, 1, fid)}
	return func() error {
		for _, ask := range asks {
			if _, err := c.rpc(ask); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// listMany opens and reads the directory of a thousand files.
func listMany(c *conn) (func() error, error) {
	fid := c.newFid()
	walk, open, clunk := walkFrame(0, fid, manyDir), c.openFrame(fid, forReading), frame(tclunk, 1, fid)
	return func() error {
		if _, err := c.rpc(walk); err != nil {
			return err
		}
		if _, err := c.rpc(open); err != nil {
			return err
		}
		if n, err := c.list(fid); err != nil || n < 24*manyNames {
			return fmt.Errorf("a listing of %d bytes: %w", n, err)
		}
		_, err := c.rpc(clunk)
		return err
	}, nil
}
