package docker

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"

	"agent9/providers/sandboxes"
)

// lastLook is how long the engine may take to say something of a run that ends.
const lastLook = 2 * time.Second

// Usage of processors, memory and the network is up to a second old while the
// sandbox runs, and of a run that has ended as old as that was then: the engine
// measures once a second, and tells nothing of a run that is over but when it
// was. Runs that this program has not seen are not in it, but for the time of
// the last one. The kernel's kills are those that the engine remembers, which
// is the last of its 256 events.
func (s *sandbox) Usage(ctx context.Context) (sandboxes.Usage, error) {
	found, err := s.p.api.ContainerInspect(ctx, s.id)
	if err != nil {
		return sandboxes.Usage{}, s.p.fail("looking at the sandbox", err)
	}
	run := newSpan(found.State)
	if run.began.IsZero() {
		return s.total(run.key, sandboxes.Usage{}), nil
	}
	if run.running && !s.measured(run.key) {
		stats, err := s.measure(ctx)
		if err != nil {
			return sandboxes.Usage{}, err
		}
		s.total(run.key, used(stats))
	}
	u := sandboxes.Usage{Wall: run.wall()}
	if found.HostConfig.Memory > 0 {
		if u.OOMKills, err = s.oomKills(ctx, run); err != nil {
			return sandboxes.Usage{}, err
		}
	}
	return s.total(run.key, u), nil
}

// span is the time of a run, by the engine's clock.
type span struct {
	key          string // began, as the engine writes it
	began, ended time.Time
	running      bool
}

func newSpan(state *container.State) span {
	began, _ := time.Parse(time.RFC3339Nano, state.StartedAt)
	ended, _ := time.Parse(time.RFC3339Nano, state.FinishedAt)
	return span{state.StartedAt, began, ended, state.Running}
}

// wall is how long the run has taken; of one that goes on, as far as the two
// clocks agree.
func (r span) wall() time.Duration {
	if r.running {
		return max(time.Since(r.began), 0)
	}
	return max(r.ended.Sub(r.began), 0)
}

// follow remembers what the engine measures of the run that has begun, until
// that or ctx ends.
func (s *sandbox) follow(ctx context.Context) {
	state, err := s.state(ctx)
	if err != nil {
		return
	}
	answer, err := s.p.api.ContainerStats(ctx, s.id, true)
	if err != nil {
		return
	}
	defer answer.Body.Close()
	for dec := json.NewDecoder(answer.Body); ; {
		var stats container.StatsResponse
		if dec.Decode(&stats) != nil {
			return
		}
		s.total(state.StartedAt, used(stats))
	}
}

func (s *sandbox) measured(began string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.runs[began].CPU > 0
}

func (s *sandbox) measure(ctx context.Context) (container.StatsResponse, error) {
	var stats container.StatsResponse
	answer, err := s.p.api.ContainerStatsOneShot(ctx, s.id)
	if err != nil {
		return stats, s.p.fail("asking for the usage", err)
	}
	defer answer.Body.Close()
	return stats, s.p.fail("asking for the usage", json.NewDecoder(answer.Body).Decode(&stats))
}

func used(stats container.StatsResponse) sandboxes.Usage {
	u := sandboxes.Usage{
		CPU:    time.Duration(stats.CPUStats.CPUUsage.TotalUsage),
		Memory: int64(max(stats.MemoryStats.MaxUsage, stats.MemoryStats.Usage)),
	}
	for _, n := range stats.Networks {
		u.Sent += int64(n.TxBytes)
		u.Received += int64(n.RxBytes)
	}
	return u
}

// oomKills counts what the engine remembers of the last run's. Its answer ends at once,
// because it is not asked for what is still to come; a clock here that goes
// ahead of the engine's makes it end later by that.
func (s *sandbox) oomKills(ctx context.Context, run span) (n int64, err error) {
	ctx, done := context.WithCancel(ctx)
	defer done()
	kills, failed := s.p.api.Events(ctx, events.ListOptions{
		Since:   run.key,
		Until:   strconv.FormatFloat(float64(time.Now().UnixNano())/1e9, 'f', 9, 64),
		Filters: filters.NewArgs(filters.Arg("container", s.id), filters.Arg("event", "oom")),
	})
	for {
		select {
		case <-kills:
			n++
		case err := <-failed:
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return n, s.p.fail("asking for the engine's events", err)
		}
	}
}

// total remembers what is known of a run, and returns the sum of all.
func (s *sandbox) total(began string, run sandboxes.Usage) sandboxes.Usage {
	s.mu.Lock()
	defer s.mu.Unlock()
	if run != (sandboxes.Usage{}) {
		s.runs[began] = most(s.runs[began], run)
	}
	var sum sandboxes.Usage
	for _, u := range s.runs {
		sum.CPU += u.CPU
		sum.Memory = max(sum.Memory, u.Memory)
		sum.Sent += u.Sent
		sum.Received += u.Received
		sum.OOMKills += u.OOMKills
		sum.Wall += u.Wall
	}
	return sum
}

// most joins two looks at one run: what it used only grows.
func most(a, b sandboxes.Usage) sandboxes.Usage {
	return sandboxes.Usage{
		CPU:      max(a.CPU, b.CPU),
		Memory:   max(a.Memory, b.Memory),
		Sent:     max(a.Sent, b.Sent),
		Received: max(a.Received, b.Received),
		OOMKills: max(a.OOMKills, b.OOMKills),
		Wall:     max(a.Wall, b.Wall),
	}
}
