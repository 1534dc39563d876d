package ticks

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"agent9/store"
	"agent9/store/check"
)

// Check finds what is wrong with the ticks of an agent in st. It returns what
// sets off a tick now, and whether an order or an alarm waits that does. What
// is remembered of messages that are gone is nothing wrong.
func Check(ctx context.Context, st store.Updater, r *check.Report) (mode Mode, waits bool, err error) {
	rec, ok, err := check.Record[record](ctx, st, r, recordKey, "the record of ticks")
	if err != nil || !ok {
		return mode, false, err
	}
	if mode, ok, err = check.Record[Mode](ctx, st, r, modeKey, "what sets off ticks"); err != nil || !ok {
		return mode, false, err
	}
	list, err := check.Records[order](ctx, st, r, orders, "order to tick")
	if err != nil {
		return mode, false, err
	}
	times, err := check.Records[alarm](ctx, st, r, alarms, "alarm")
	if err != nil {
		return mode, false, err
	}
	should := rec
	for key := range list {
		n, err := strconv.ParseUint(key[len(orders):], 16, 64)
		if err != nil {
			r.Mend(fmt.Sprintf("there is an order to tick called %q", key), "takes it away", check.Delete(st, key))
		}
		should.Order = max(should.Order, n)
	}
	for key, a := range times {
		n, _ := strconv.ParseUint(a.ID, 10, 64)
		should.Alarm = max(should.Alarm, n)
		if _, err := a.after(time.Now()); a.key() != key || a.Cron != "" && err != nil {
			r.Mend(fmt.Sprintf("alarm %s cannot ring", strings.TrimPrefix(key, alarms)), "takes it away", check.Delete(st, key))
		}
	}
	if should.Order != rec.Order || should.Alarm != rec.Alarm {
		r.Mend(fmt.Sprintf("the latest alarm is counted as %d and the latest order as %d, and there are %d and %d: the next ones would take their place", rec.Alarm, rec.Order, should.Alarm, should.Order),
			"counts on from there", check.PutJSON(st, recordKey, should))
	}
	tries, err := check.Records[retry](ctx, st, r, retries, "retry")
	if err != nil {
		return mode, false, err
	}
	for _, key := range slices.Sorted(maps.Keys(tries)) {
		of := key[len(retries):]
		_, isOrder := list[of]
		_, isAlarm := times[of]
		if !isOrder && !isAlarm && !strings.HasPrefix(of, letters) {
			r.Mend(fmt.Sprintf("a tick for %s is to be tried again, which is not there", of), "forgets it", check.Delete(st, key))
		}
	}
	waits = mode.Program && !mode.Stopped && rec.Broken == "" && len(list)+len(times) > 0
	mode.Messages = mode.Messages && mode.Program && !mode.Stopped && rec.Broken == ""
	return mode, waits, nil
}

// CheckSchedule finds what is wrong with the schedule in st. agents are those
// that there are, and waiting those for whom something waits.
func CheckSchedule(ctx context.Context, st store.Updater, r *check.Report, agents, waiting map[string]bool) error {
	index := check.Index{What: "the schedule", Of: "agent", Want: map[string][]byte{}}
	has := map[string]bool{}
	for p, err := range store.All(ctx, st, keyOf) {
		if err != nil {
			return err
		}
		agent, key := p.Key[len(keyOf):], string(p.Value)
		if !agents[agent] {
			r.Mend(fmt.Sprintf("the schedule has agent %s, which is not there", agent), "removes it", check.Delete(st, p.Key, key))
			index.Want[key] = []byte{}
			continue
		}
		if !strings.HasSuffix(key, "/"+agent) || !strings.HasPrefix(key, readyPart) && !strings.HasPrefix(key, timedPart) {
			r.Mend(fmt.Sprintf("when agent %s is due cannot be read", agent), "makes it due now", makeDue(st, agent, p.Key))
			continue
		}
		has[agent] = true
		index.Want[key] = []byte{}
	}
	for _, part := range []string{readyPart, timedPart} {
		x := index
		x.Prefix, x.Want = part, map[string][]byte{}
		for key := range index.Want {
			if strings.HasPrefix(key, part) {
				x.Want[key] = []byte{}
			}
		}
		if err := x.Check(ctx, st, r); err != nil {
			return err
		}
	}
	for _, agent := range slices.Sorted(maps.Keys(waiting)) {
		if !has[agent] {
			r.Mend(fmt.Sprintf("something waits for a tick of agent %s, and the schedule does not know of it", agent), "makes it due now", makeDue(st, agent))
		}
	}
	return nil
}

// makeDue makes an agent due now, after keys of it were taken away.
func makeDue(st store.Updater, agent string, keys ...string) check.Fix {
	return func(ctx context.Context) error {
		if err := check.Delete(st, keys...)(ctx); err != nil {
			return err
		}
		s, err := NewSchedule(ctx, st, time.Now, 1)
		if err != nil {
			return err
		}
		return st.Update(ctx, func(tx store.Store) error { return s.Set(ctx, tx, agent, Due{Ready: true}) })
	}
}
