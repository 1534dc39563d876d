package main

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"

	"agent9/fsys"
)

// scaleSuite measures whether what lies there makes anything slower: the same
// operations on an agent with a thousand of a kind, and on one with many.
func scaleSuite(ctx context.Context, b *bench) error {
	s, err := b.startAgentd(ctx, filepath.Join(b.dir, "scale"))
	if err != nil {
		return err
	}
	defer s.end()
	const few = 1000
	messages, lines, jobs := b.scale(20_000, 1_000_000), b.scale(20_000, 10_000_000), b.scale(5000, 100_000)
	var agents []*laden
	for _, a := range []struct {
		name                  string
		messages, lines, jobs int
	}{{"many", messages, lines, jobs}, {"few", few, few, few}} {
		b.say("filling %s: %d messages, %d lines, %d jobs", a.name, a.messages, a.lines, a.jobs)
		l, err := load(ctx, s, a.name, a.messages, a.lines, a.jobs)
		if err != nil {
			return fmt.Errorf("%s: %w", a.name, err)
		}
		agents = append(agents, l)
	}
	for _, f := range []struct {
		name string
		op   func(l *laden, c *conn) (func() error, error)
	}{
		{fmt.Sprintf("inbox-walk/%d", messages), (*laden).walkMessage},
		{fmt.Sprintf("inbox-append/%d", messages), (*laden).append},
		{fmt.Sprintf("log-append/%d", lines), (*laden).log},
		{fmt.Sprintf("log-tail/%d", lines), (*laden).tail},
		{fmt.Sprintf("job-walk/%d", jobs), (*laden).walkJob},
		{fmt.Sprintf("job/%d", jobs), (*laden).job},
	} {
		if !b.wants("scale/" + f.name) {
			continue
		}
		var all []subject
		for _, l := range agents {
			one, hangUp, err := subjects(linux, smallMsize, []*server{s}, func(c *conn) (func() error, error) { return f.op(l, c) })
			if err != nil {
				return fmt.Errorf("%s: %w", f.name, err)
			}
			defer hangUp()
			one[0].name = l.name
			all = append(all, one[0])
		}
		if err := b.byTurns(ctx, "scale/"+f.name, all, aim{"few", 2}); err != nil {
			return err
		}
	}
	return nil
}

// A laden is an agent with messages, lines and jobs.
type laden struct {
	name    string
	message string // that waits
	ended   string // a job
}

func load(ctx context.Context, s *server, name string, messages, lines, jobs int) (*laden, error) {
	c, root, err := s.dial(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	agent, err := createAgent(ctx, root, name)
	if err == nil {
		err = fsys.WriteFile(ctx, agent, "config", []byte(`{"inbox":{"limit":1048576,"overflow":"drop-oldest"}}`))
	}
	if err != nil {
		return nil, err
	}
	l := &laden{name: name}
	text := bytes.Repeat([]byte("m"), messageSize)
	err = together(messageWriters, messages, func(i int) error {
		id, err := fsys.Converse(ctx, agent, "inbox/new", text)
		if i == messages/2 {
			l.message = string(bytes.TrimSpace(id))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if err != nil {
		return nil, err
	}
	const atOnce = 50 // requests in one write
	some := bytes.Repeat([]byte(`{"text":"a line that says what has been done, and how it came out"}`+"\n"), atOnce)
	err = together(messageWriters, lines/atOnce, func(int) error { return fsys.WriteFile(ctx, agent, "logs/write", some) })
	if err != nil {
		return nil, err
	}
	return l, together(messageWriters, jobs, func(i int) error {
		number, err := fsys.Converse(ctx, agent, "compute/new", []byte(question))
		if err != nil {
			return err
		}
		job := string(bytes.TrimSpace(number))
		if i == jobs/2 {
			l.ended = job
		}
		_, err = fsys.ReadFile(ctx, agent, "compute/jobs/"+job+"/output") // to its end
		return err
	})
}

const question = "how are you?\n"

func (l *laden) walkMessage(c *conn) (func() error, error) { return l.walkTo(c, l.message, "inbox") }

func (l *laden) walkJob(c *conn) (func() error, error) {
	return l.walkTo(c, l.ended, "compute", "jobs")
}

// walkTo walks to name from the folder at path.
func (l *laden) walkTo(c *conn, name string, path ...string) (func() error, error) {
	dir := c.newFid()
	if err := c.walk(0, dir, append([]string{"agents", l.name}, path...)...); err != nil {
		return nil, err
	}
	fid := c.newFid()
	walk, clunk := walkFrame(dir, fid, name), frame(tclunk, 1, fid)
	return func() error {
		if _, err := c.rpc(walk); err != nil {
			return err
		}
		_, err := c.rpc(clunk)
		return err
	}, nil
}

func (l *laden) append(c *conn) (func() error, error) {
	fid, err := c.open(forBoth, "agents", l.name, "inbox", "new")
	text := []byte("{\"body\":\"one more\"}\n")
	write, read := frame(twrite, 1, fid, uint64(0), uint32(len(text)), text), readFrame(1, fid, 0, 256)
	return func() error {
		if _, err := c.rpc(write); err != nil {
			return err
		}
		_, err := c.rpc(read)
		return err
	}, err
}

func (l *laden) log(c *conn) (func() error, error) {
	fid, err := c.open(forWriting, "agents", l.name, "logs", "write")
	text := []byte("one more\n")
	write, sync := frame(twrite, 1, fid, uint64(0), uint32(len(text)), text), frame(tfsync, 1, fid, uint32(0))
	return func() error {
		if _, err := c.rpc(write); err != nil {
			return err
		}
		_, err := c.rpc(sync)
		return err
	}, err
}

// job asks echo, and reads the answer to its end.
func (l *laden) job(c *conn) (func() error, error) {
	jobs := c.newFid()
	if err := c.walk(0, jobs, "agents", l.name, "compute", "jobs"); err != nil {
		return nil, err
	}
	ask := c.newFid()
	if err := c.walk(0, ask, "agents", l.name, "compute", "new"); err != nil {
		return nil, err
	}
	fid := c.newFid()
	text := []byte(question)
	return func() error {
		var number string
		for i, f := range [][]byte{
			walkFrame(ask, fid), c.openFrame(fid, forBoth), frame(twrite, 1, fid, uint64(0), uint32(len(text)), text),
			readFrame(1, fid, 0, 256), frame(tclunk, 1, fid),
		} {
			r, err := c.rpc(f)
			if err != nil {
				return err
			}
			if i == 3 {
				number = string(bytes.TrimSpace(r[readHeader:]))
			}
		}
		for _, f := range [][]byte{walkFrame(jobs, fid, number, "output"), c.openFrame(fid, forReading)} {
			if _, err := c.rpc(f); err != nil {
				return err
			}
		}
		for offset := uint64(0); ; {
			r, err := c.rpc(readFrame(1, fid, offset, 4096))
			if err != nil {
				return err
			}
			if len(r) <= readHeader {
				break
			}
			offset += uint64(len(r) - readHeader)
		}
		_, err := c.rpc(frame(tclunk, 1, fid))
		return err
	}, nil
}

// tail opens the trajectory and reads its last 4 KiB.
func (l *laden) tail(c *conn) (func() error, error) {
	at := c.newFid()
	if err := c.walk(0, at, "agents", l.name, "logs", "trajectory"); err != nil {
		return nil, err
	}
	fid := c.newFid()
	return func() error {
		r, err := c.rpc(c.attrFrame(1, at))
		if err != nil {
			return err
		}
		size := sizeIn(r)
		for _, ask := range [][]byte{walkFrame(at, fid), c.openFrame(fid, forReading), readFrame(1, fid, size-4096, 4096), frame(tclunk, 1, fid)} {
			if _, err := c.rpc(ask); err != nil {
				return err
			}
		}
		return nil
	}, nil
}
