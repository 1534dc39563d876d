package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"agent9/fsys"
)

// messageWriters is how many write messages at the same time, each of
// messageSize bytes, and wait until each is on disk.
const (
	messageWriters = 64
	messageSize    = 200
)

// A sender sends one message and returns when it is kept.
type sender interface {
	send() error
	close()
}

// inboxSuite measures durable messages beside brokers that promise the same,
// and beside a file with an fsync for each.
func inboxSuite(ctx context.Context, b *bench) error {
	s, err := b.startAgentd(ctx, filepath.Join(b.dir, "inbox"))
	if err != nil {
		return err
	}
	defer s.end()
	if err := roomyInbox(ctx, s); err != nil {
		return err
	}
	crowd, err := newSenders(func() (sender, error) { return newMessenger(s) })
	if err != nil {
		return err
	}
	defer crowd.close()
	f, err := os.Create(filepath.Join(b.dir, "fsync"))
	if err != nil {
		return err
	}
	defer f.Close()
	all := []subject{
		{name: ours, spent: s.spent, do: crowd.send},
		{name: "fsync", do: func(_ context.Context, n int) error { return syncEach(f, n) }},
	}
	for _, broker := range brokers() {
		if !b.wantsPeer(broker.name) {
			continue
		}
		p, senders, err := b.startBroker(ctx, broker)
		if err != nil {
			fmt.Fprintf(b.notes, "agentbench: without %s: %v\n", broker.name, err)
			continue
		}
		defer p.end()
		defer senders.close()
		all = append(all, subject{name: broker.name, spent: p.spent, do: senders.send})
	}
	return b.byTurns(ctx, fmt.Sprintf("inbox/writers%d", messageWriters), all, aim{"fsync", 1. / 30}, aim{"jetstream", 1}, aim{"redis", 1})
}

// roomyInbox makes an agent whose inbox takes whatever comes.
func roomyInbox(ctx context.Context, s *server) error {
	c, root, err := s.dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	agent, err := createAgent(ctx, root, agentName)
	if err != nil {
		return err
	}
	return fsys.WriteFile(ctx, agent, "config", []byte(`{"inbox":{"limit":1048576,"overflow":"drop-oldest"}}`))
}

// syncEach appends so many messages to a file, each with an fsync.
func syncEach(f *os.File, n int) error {
	message := make([]byte, messageSize)
	for range n {
		if _, err := f.Write(message); err != nil {
			return err
		}
		if err := f.Sync(); err != nil {
			return err
		}
	}
	return nil
}

// senders are those that send at the same time.
type senders []sender

func newSenders(one func() (sender, error)) (all senders, err error) {
	for range messageWriters {
		s, err := one()
		if err != nil {
			all.close()
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

func (all senders) send(_ context.Context, n int) error {
	return together(len(all), n, func(i int) error { return all[i%len(all)].send() })
}

func (all senders) close() {
	for _, s := range all {
		s.close()
	}
}

// A messenger keeps the agent's inbox/new open, as a shell does with exec 3<>.
type messenger struct {
	*conn
	write, read []byte
}

func newMessenger(s *server) (*messenger, error) {
	c, err := attach(s, linux, smallMsize)
	if err != nil {
		return nil, err
	}
	fid, err := c.open(forBoth, "agents", agentName, "inbox", "new")
	if err != nil {
		c.close()
		return nil, err
	}
	text := fmt.Sprintf("{\"body\":\"%s\"}\n", bytes.Repeat([]byte("m"), messageSize))
	return &messenger{c, frame(twrite, 1, fid, uint64(0), uint32(len(text)), []byte(text)), readFrame(1, fid, 0, 256)}, nil
}

func (m *messenger) send() error {
	if _, err := m.rpc(m.write); err != nil {
		return err
	}
	_, err := m.rpc(m.read)
	return err
}
