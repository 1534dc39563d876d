package main

import (
	"context"
	"fmt"
)

// loadFigures are those of many requests at a time: the time of one, so to
// speak, is that of all by their number.
func loadFigures(ctx context.Context, b *bench, servers []*server, floor *server) error {
	aims := []aim{{"p9ufs", 1. / 3}, {"diod", 1 / 1.5}, {"floor", 0}}
	servers = append(append([]*server{}, servers...), floor)
	for _, f := range []struct {
		name string
		fid  func(c *conn) (fid uint32, err error)
		ask  func(c *conn, tag uint16, fid uint32) []byte
	}{
		{"getattr", walkSmall, (*conn).attrFrame},
		{"read64", openSmall, func(_ *conn, tag uint16, fid uint32) []byte { return readFrame(tag, fid, 0, smallSize) }},
	} {
		prepare := func(c *conn, tags int) (*window, error) {
			fid, err := f.fid(c)
			w := &window{conn: c}
			for tag := range tags {
				w.asks = append(w.asks, f.ask(c, uint16(tag), fid))
			}
			return w, err
		}
		for _, load := range []struct {
			name              string
			connections, tags int
		}{
			{"outstanding32", 1, 32}, {"outstanding256", 1, 256}, {"connections64", 64, 1},
		} {
			figure := load.name + "/" + f.name
			if !b.wants(figure) {
				continue
			}
			all, hangUp, err := crowds(servers, load.connections, func(c *conn) (*window, error) { return prepare(c, load.tags) })
			if err != nil {
				return fmt.Errorf("%s: %w", figure, err)
			}
			err = b.byTurns(ctx, figure, all, aims...)
			hangUp()
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func walkSmall(c *conn) (uint32, error) {
	fid := c.newFid()
	return fid, c.walk(0, fid, smallFile)
}

func openSmall(c *conn) (uint32, error) { return c.open(forReading, smallFile) }

// A window keeps as many requests outstanding on a connection as it has, each
// with a tag of its own.
type window struct {
	conn *conn
	asks [][]byte // by tag
	out  []byte
}

// do performs n requests. It writes as many as were answered by what one read
// gave, together.
func (w *window) do(n int) error {
	sent := min(n, len(w.asks))
	for _, ask := range w.asks[:sent] {
		w.out = append(w.out, ask...)
	}
	for answered := 0; answered < n; {
		if len(w.out) > 0 {
			if _, err := w.conn.net.Write(w.out); err != nil {
				return err
			}
			w.out = w.out[:0]
		}
		for more := true; more; more = w.conn.buffered() {
			r, err := w.conn.reply()
			if err != nil {
				return err
			}
			answered++
			if sent < n {
				w.out = append(w.out, w.asks[int(r[5])|int(r[6])<<8]...)
				sent++
			}
		}
	}
	return nil
}

// crowds makes a subject of each server that speaks 9P2000.L, with so many
// connections that work at the same time.
func crowds(servers []*server, connections int, prepare func(c *conn) (*window, error)) ([]subject, func(), error) {
	var all []subject
	var windows []*window
	hangUp := func() {
		for _, w := range windows {
			w.conn.close()
		}
	}
	for _, s := range servers {
		if !s.speaks(linux) {
			continue
		}
		first := len(windows)
		for range connections {
			c, err := attach(s, linux, smallMsize)
			var w *window
			if err == nil {
				w = &window{conn: c}
				windows = append(windows, w)
				err = c.enter(s.dir)
			}
			if err == nil {
				w, err = prepare(c)
			}
			if err != nil {
				hangUp()
				return nil, nil, fmt.Errorf("%s: %w", s.name, err)
			}
			windows[len(windows)-1] = w
		}
		mine := windows[first:]
		all = append(all, subject{name: s.name, spent: s.spent, do: func(_ context.Context, n int) error {
			return together(len(mine), len(mine), func(i int) error { return mine[i].do((n + i) / len(mine)) })
		}})
	}
	return all, hangUp, nil
}
