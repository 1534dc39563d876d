package ticks

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"agent9/fsys"
	"agent9/store"
	"agent9/store/due"
)

// The keys of a Schedule:
//
//	q/<n>/<agent>      ready, in the order in which they became so
//	t/<time>/<agent>   something is due at a time, in milliseconds since 1970
//	of/<agent>         which of these keys the agent has
//	clock              when something with a time was last put in, in
//	                   milliseconds since 1970
const (
	readyPart = "q/"
	timedPart = "t/"
	keyOf     = "of/"
	clockKey  = "clock"
)

const (
	// penalty is how long an agent waits whose work could not be recorded.
	penalty = 5 * time.Second
	// setBack is by how much a clock that goes back was set.
	setBack = 2 * time.Second
)

// A Schedule knows which agents have something to do, and does it: each agent
// one thing at a time, a number of agents at once, and those that are ready in
// the order in which they became so, whoever has more.
type Schedule struct {
	st   store.Updater
	now  func() time.Time
	most int
	work func(ctx context.Context, agent string) error

	timer *due.Timer
	done  chan struct{} // closed when nothing runs after the end
	stop  context.CancelFunc

	seq    uint64    // of the latest place in q; used in transactions only
	latest time.Time // the latest that the clock has been; used by look only

	mu      sync.Mutex
	running map[string]bool
	failed  map[string]time.Time // until when they wait
	workers sync.WaitGroup
}

// NewSchedule returns the schedule that is kept in st, which may be empty. It
// does nothing before Start.
func NewSchedule(ctx context.Context, st store.Updater, now func() time.Time, most int) (*Schedule, error) {
	s := &Schedule{
		st: st, now: now, most: most,
		done: make(chan struct{}), running: map[string]bool{}, failed: map[string]time.Time{},
	}
	s.timer = due.New(now, s.look)
	for p, err := range store.All(ctx, store.Forgiving(st), readyPart) {
		if err != nil {
			return nil, err
		}
		s.seq = max(s.seq, number(p.Key))
	}
	digits, err := st.Get(ctx, clockKey)
	if err != nil && fsys.CodeOf(err) != fsys.NotExist && !store.IsDamaged(err) {
		return nil, err
	}
	ms, _ := strconv.ParseInt(string(digits), 10, 64) // else as if there had been none
	s.latest = time.UnixMilli(ms)
	return s, nil
}

func placeKey(part string, n uint64, agent string) string {
	return part + hex.EncodeToString(binary.BigEndian.AppendUint64(nil, n)) + "/" + agent
}

// number returns what is between the slashes of a key.
func number(key string) uint64 {
	_, rest, _ := strings.Cut(key, "/")
	digits, _, _ := strings.Cut(rest, "/")
	b, err := hex.DecodeString(digits)
	if err != nil || len(b) != 8 {
		return 0
	}
	return binary.BigEndian.Uint64(b)
}

func agentOf(key string) string { return key[strings.LastIndexByte(key, '/')+1:] }

// Set says when an agent has something to do, in the transaction that tx
// belongs to. One that is ready keeps its place, unless it had its turn.
func (s *Schedule) Set(ctx context.Context, tx store.Store, agent string, d Due) error {
	in := store.In(tx, s.st)
	old, err := store.Forgiving(in).Get(ctx, keyOf+agent)
	if store.IsDamaged(err) {
		old, err = nil, forget(ctx, in, agent)
	}
	if err != nil && fsys.CodeOf(err) != fsys.NotExist {
		return err
	}
	was := string(old)
	if d.Ready && !d.Last && strings.HasPrefix(was, readyPart) {
		return nil
	}
	key := ""
	switch {
	case d.Ready:
		s.seq++
		key = placeKey(readyPart, s.seq, agent)
	case !d.At.IsZero():
		key = placeKey(timedPart, uint64(max(0, d.At.UnixMilli())), agent)
	}
	if key == was {
		return nil
	}
	if was != "" {
		if err := in.Delete(ctx, was); err != nil {
			return err
		}
	}
	store.After(tx, s.poke)
	if key == "" {
		return in.Delete(ctx, keyOf+agent)
	}
	if !d.Ready {
		if err := in.Put(ctx, clockKey, strconv.AppendInt(nil, s.clock().UnixMilli(), 10)); err != nil {
			return err
		}
	}
	if err := in.Put(ctx, key, nil); err != nil {
		return err
	}
	return in.Put(ctx, keyOf+agent, []byte(key))
}

// forget deletes the places of an agent whose own record of them is damaged.
func forget(ctx context.Context, in store.Store, agent string) error {
	for _, part := range []string{readyPart, timedPart} {
		for p, err := range store.All(ctx, store.Forgiving(in), part) {
			if err == nil && agentOf(p.Key) == agent {
				err = in.Delete(ctx, p.Key)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Schedule) poke() { s.timer.At(s.now()) }

// Start begins to call work for agents that have something to do, until life
// ends or Close. An error of work says that it did nothing; it is called
// again later. NotExist says that there is no such agent.
func (s *Schedule) Start(life context.Context, work func(ctx context.Context, agent string) error) {
	s.work = work
	ctx, stop := context.WithCancel(life)
	s.stop = stop
	s.poke()
	go func() { // until ctx ends and what was begun has
		defer close(s.done)
		s.timer.Run(ctx)
		s.workers.Wait()
	}()
}

// Close ends what runs, and waits until that is recorded or ctx ends.
func (s *Schedule) Close(ctx context.Context) error {
	if s.stop == nil {
		return nil
	}
	s.stop()
	select {
	case <-s.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// look starts what is due, and returns when it looks again.
func (s *Schedule) look(ctx context.Context) time.Time {
	now := s.clock()
	wait, err := s.dispatch(ctx, now, now.Before(s.latest.Add(-setBack)))
	if err == nil {
		s.latest = now
	} else if ctx.Err() == nil {
		slog.Error("finding out what is due", "err", err)
		wait = penalty
	}
	return s.now().Add(wait)
}

// clock is what the clock shows, which may be earlier than before: without the
// monotonic reading, by which it never is.
func (s *Schedule) clock() time.Time { return s.now().Round(0) }

// dispatch starts what is due, as much as may run at once, and returns how
// long there is nothing else to start. If the clock was set back, everything
// with a time is looked at again.
func (s *Schedule) dispatch(ctx context.Context, now time.Time, back bool) (time.Duration, error) {
	wait, err := s.promote(ctx, now, back)
	if err != nil {
		return 0, err
	}
	s.mu.Lock()
	skip := len(s.running) + len(s.failed)
	free := s.most - len(s.running)
	s.mu.Unlock()
	if free <= 0 {
		return wait, nil // who ends will poke
	}
	list, err := store.Forgiving(s.st).List(ctx, readyPart, "", skip+free)
	if err != nil {
		return 0, err
	}
	for _, p := range list {
		started, until := s.begin(ctx, agentOf(p.Key))
		if !until.IsZero() {
			wait = min(wait, max(0, time.Until(until)))
		}
		if started {
			if free--; free == 0 {
				break
			}
		}
	}
	return wait, nil
}

// promote makes those ready whose time has come, and returns how long it is
// until the next one's has.
func (s *Schedule) promote(ctx context.Context, now time.Time, all bool) (time.Duration, error) {
	for {
		page, err := store.Forgiving(s.st).List(ctx, timedPart, "", 0)
		if err != nil {
			return 0, err
		}
		past := 0
		for _, p := range page {
			if !all && time.UnixMilli(int64(number(p.Key))).After(now) {
				break
			}
			past++
		}
		if past == 0 {
			if len(page) == 0 {
				return due.Recheck, nil
			}
			return min(due.Recheck, max(0, time.UnixMilli(int64(number(page[0].Key))).Sub(now))), nil
		}
		err = s.st.Update(ctx, func(tx store.Store) error {
			for _, p := range page[:past] {
				agent := agentOf(p.Key)
				key, err := store.Forgiving(store.In(tx, s.st)).Get(ctx, keyOf+agent)
				if !store.IsDamaged(err) && (err != nil || string(key) != p.Key) {
					if err := store.In(tx, s.st).Delete(ctx, p.Key); err != nil { // it has moved since
						return err
					}
					continue
				}
				if err := s.Set(ctx, tx, agent, Due{Ready: true}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return 0, err
		}
	}
}

// begin starts an agent's work, unless it runs, or has to wait until a time.
func (s *Schedule) begin(ctx context.Context, agent string) (started bool, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if until := s.failed[agent]; !until.IsZero() {
		if time.Now().Before(until) {
			return false, until
		}
		delete(s.failed, agent)
	}
	if s.running[agent] || ctx.Err() != nil {
		return false, time.Time{}
	}
	s.running[agent] = true
	s.workers.Add(1)
	go func() { // until the work ends, as it does when ctx does
		defer s.workers.Done()
		s.ended(ctx, agent, s.work(ctx, agent))
	}()
	return true, time.Time{}
}

func (s *Schedule) ended(ctx context.Context, agent string, err error) {
	if err != nil && fsys.CodeOf(err) == fsys.NotExist {
		err = s.st.Update(ctx, func(tx store.Store) error { return s.Set(ctx, tx, agent, Due{}) })
	}
	s.mu.Lock()
	delete(s.running, agent)
	if err != nil && ctx.Err() == nil {
		s.failed[agent] = time.Now().Add(penalty)
	}
	s.mu.Unlock()
	if err != nil && ctx.Err() == nil {
		slog.Error("an agent's tick", "agent", agent, "err", err)
	}
	s.poke()
}

// Running returns how many agents have a tick.
func (s *Schedule) Running() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.running)
}
