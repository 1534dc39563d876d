package inbox

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"agent9/store"
	"agent9/store/check"
)

// Check finds what is wrong with the inbox in st.
func Check(ctx context.Context, st store.Updater, r *check.Report) error {
	letters, err := check.Records[letter](ctx, st, r, "i/", "message")
	if err != nil {
		return err
	}
	lines, err := check.Records[Message](ctx, st, r, "m/", "message")
	if err != nil {
		return err
	}
	n, ok, err := check.Record[counts](ctx, st, r, countsKey, "the count of messages")
	if err != nil || !ok {
		return err
	}
	should := n
	should.Waiting, should.Dead, should.Taken, should.TakenBytes = 0, 0, 0, 0
	want := map[queue]map[string][]byte{waiting: {}, dead: {}, taken: {}}
	for _, key := range slices.Sorted(maps.Keys(letters)) {
		l, id := letters[key], key[len("i/"):]
		if want[l.Queue] == nil {
			r.Lost(fmt.Sprintf("message %s is in no queue", id), check.FromBackup)
			continue
		}
		if _, ok := lines[lineKey(id)]; !ok {
			r.Mend(fmt.Sprintf("the text of message %s is gone", id), "takes away what is left of it, as whoever took it would get nothing",
				check.Delete(st, key, l.Queue.key(l.Place)))
			continue
		}
		want[l.Queue][l.Queue.key(l.Place)] = []byte(id)
		should.Place = max(should.Place, l.Place)
		should.count(l, 1)
	}
	for id := range lines {
		if _, ok := letters[letterKey(id[len("m/"):])]; !ok {
			r.Mend(fmt.Sprintf("message %s is stored, and nobody knows where it waits", id[len("m/"):]), "puts it at the end of the inbox", requeue(st, lines[id]))
		}
	}
	for q, what := range map[queue]string{waiting: "the order of messages that wait", dead: "the order of deadletter", taken: "the order of what was taken"} {
		if err := (check.Index{Prefix: string(q), What: what, Of: "place", Want: want[q]}).Check(ctx, st, r); err != nil {
			return err
		}
	}
	if n != should {
		r.Mend(fmt.Sprintf("%d messages are counted as waiting, %d as dead and %d (%d bytes) as taken, up to place %d, and there are %d, %d and %d (%d bytes), up to place %d",
			n.Waiting, n.Dead, n.Taken, n.TakenBytes, n.Place, should.Waiting, should.Dead, should.Taken, should.TakenBytes, should.Place),
			"counts them again", check.PutJSON(st, countsKey, should))
	}
	return goneIDs.check(ctx, st, r)
}

// requeue puts a message whose letter is gone at the end of the inbox.
func requeue(st store.Updater, m Message) check.Fix {
	return func(ctx context.Context) error {
		in := New(st, Options{})
		return in.update(ctx, func(c *change) error {
			return c.place(m.ID, letter{Queue: waiting, From: m.From, Type: m.Type}, "")
		})
	}
}

// CheckOutbox finds what is wrong with the outbox in st.
func CheckOutbox(ctx context.Context, st store.Updater, r *check.Report) error {
	if _, err := check.Log(ctx, store.Sub(st, "sent/"), r, "what was sent", check.IsJSON); err != nil {
		return err
	}
	if _, _, err := check.Record[uint64](ctx, st, r, clockKey, "the clock of the ids"); err != nil {
		return err
	}
	return sentIDs.check(ctx, st, r)
}

// check compares what m remembers with the order in which it does.
func (m memory) check(ctx context.Context, st store.Updater, r *check.Report) error {
	n, ok, err := check.Record[uint64](ctx, st, r, m.count(), "the count of remembered ids")
	if err != nil || !ok {
		return err
	}
	known := map[string]bool{}
	prefix := string(m) + "at/"
	for p, err := range store.All(ctx, st, prefix) {
		if err != nil {
			return err
		}
		at, id := place(p.Key[len(m):]), string(p.Value)
		if at >= n || at+remembered < n {
			r.Mend(fmt.Sprintf("the id %s is remembered in a place that it cannot have", id), "forgets it", check.Delete(st, p.Key, m.id(id)))
			continue
		}
		known[m.id(id)] = true
		if _, err := m.owner(ctx, st, id); err != nil {
			r.Lost(fmt.Sprintf("whose the remembered id %s was cannot be read", id), check.FromBackup)
		}
	}
	for p, err := range store.All(ctx, st, string(m)+"id/") {
		if err != nil {
			return err
		}
		if !known[p.Key] {
			r.Mend(fmt.Sprintf("the id %s would be remembered for ever", p.Key[len(m.id("")):]), "forgets it", check.Delete(st, p.Key))
		}
	}
	return nil
}
