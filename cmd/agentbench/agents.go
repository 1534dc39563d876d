package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"agent9/fsys"
)

// creators is how many make agents at the same time.
const creators = 32

// agentsSuite measures making agents, what they cost in memory, and the start
// of a daemon that has them.
func agentsSuite(ctx context.Context, b *bench) error {
	dir := filepath.Join(b.dir, "agents")
	s, err := b.startAgentd(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { s.end() }()
	part, many := 1000, b.scale(10_000, 100_000)
	var times []float64 // of each thousand
	for from := 0; from < many; from += part {
		took, err := createAgents(ctx, s, from, part)
		if err != nil {
			return err
		}
		times = append(times, took.Seconds())
	}
	b.found("agents/create", median(times)/float64(part)*1e6, "µs/agent", aim{"µs", 500})
	half := len(times) / 2
	b.found(fmt.Sprintf("agents/create-later-half-%d", many), median(times[half:])/median(times[:half]), "of-the-first-half", aim{"the first half", 2})
	bytes, err := s.resident()
	if err != nil {
		return err
	}
	b.found(fmt.Sprintf("agents/resident-created-%d", many), bytes/1e6, "MB", aim{"MB", 150})
	s.end()
	start := time.Now()
	if s, err = b.startAgentd(ctx, dir); err != nil {
		return err
	}
	b.found(fmt.Sprintf("agents/start-%d", many), time.Since(start).Seconds(), "s", aim{"s", 1})
	if bytes, err = s.resident(); err != nil {
		return err
	}
	b.found(fmt.Sprintf("agents/resident-started-%d", many), bytes/1e6, "MB", aim{"MB", 150})
	return nil
}

// createAgents makes n agents, the first with number from, and returns how
// long that took.
func createAgents(ctx context.Context, s *server, from, n int) (time.Duration, error) {
	c, root, err := s.dial(ctx)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	agents, err := fsys.Walk(ctx, root, "agents")
	if err != nil {
		return 0, err
	}
	start := time.Now()
	err = together(creators, n, func(i int) error {
		_, err := fsys.Mkdir(ctx, agents, fmt.Sprintf("agent-%06d", from+i), 0o755)
		return err
	})
	return time.Since(start), err
}
