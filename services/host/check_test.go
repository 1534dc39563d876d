package host_test

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agent9/services/host"
	"agent9/services/identity"
	"agent9/store"
	"agent9/store/bolt"
	"agent9/store/check"
	"agent9/store/mem"
)

// kept returns a database that an earlier daemon made, with the agents alice
// (1) and bob (2), and the account team (3), and its master key, in a directory
// of their own.
func kept(t testing.TB) (dir string) {
	t.Helper()
	dir = t.TempDir()
	f, err := os.Open("testdata/v1.db.gz")
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	b, err := io.ReadAll(z)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, host.DatabaseName), b, 0o600))
	key, err := os.ReadFile("testdata/v1.master.key")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "master.key"), key, 0o600))
	return dir
}

// keptPairs returns what is in that database.
func keptPairs(t testing.TB) (pairs []store.Pair, key string) {
	dir := kept(t)
	db, err := bolt.OpenWith(filepath.Join(dir, host.DatabaseName), bolt.Options{Steps: host.Steps()})
	require.NoError(t, err)
	defer db.Close()
	for p, err := range store.All(t.Context(), db, "") {
		require.NoError(t, err)
		pairs = append(pairs, p)
	}
	return pairs, filepath.Join(dir, "master.key")
}

// A bench is a copy of it in memory, to be broken.
type bench struct {
	*testing.T
	st   store.Updater
	ring *identity.KeyRing
}

func (b *bench) del(key string) {
	b.Helper()
	_, err := b.st.Get(b.Context(), key)
	require.NoError(b, err, key)
	require.NoError(b, b.st.Delete(b.Context(), key))
}

func (b *bench) put(key, value string) {
	b.Helper()
	require.NoError(b, b.st.Put(b.Context(), key, []byte(value)))
}

// set changes fields of the record at key.
func (b *bench) set(key string, fields map[string]any) {
	b.Helper()
	was, err := store.GetJSON[map[string]any](b.Context(), b.st, key)
	require.NoError(b, err, key)
	for name, v := range fields {
		was[name] = v
	}
	require.NoError(b, store.PutJSON(b.Context(), b.st, key, was))
}

// first returns the first key that begins with prefix.
func (b *bench) first(prefix string) string {
	b.Helper()
	page, err := b.st.List(b.Context(), prefix, "", 1)
	require.NoError(b, err)
	require.NotEmpty(b, page, prefix)
	return page[0].Key
}

func (b *bench) findings() []check.Finding {
	b.Helper()
	r := check.New()
	require.NoError(b, host.Check(b.Context(), b.st, b.ring, r))
	return r.All()
}

func said(all []check.Finding) string {
	var s strings.Builder
	for _, f := range all {
		s.WriteString(f.Where + ": " + f.What + "\n")
	}
	return s.String()
}

// repair mends until nothing more can be, and returns what is left.
func (b *bench) repair() (left []check.Finding) {
	b.Helper()
	for range 5 {
		left = nil
		fixed := false
		for _, f := range b.findings() {
			if f.Fix == nil {
				left = append(left, f)
				continue
			}
			require.NoError(b, f.Fix(b.Context()))
			fixed = true
		}
		if !fixed {
			return left
		}
	}
	b.Error("repairs do not come to an end")
	return left
}

const one = "0000000000000001"

// breaks are the ways in which a store can be wrong, what is said of it, and
// what is said after a repair.
var breaks = map[string]struct {
	do    func(b *bench)
	says  string
	left  string // empty: all is well
	money bool
}{
	"an agent's next number":  {func(b *bench) { b.put("next", "2") }, `the next agent would be number "2", and there is number 3`, "", false},
	"a removal mark":          {func(b *bench) { b.put("trash/1", "alice") }, "the data of agent alice is marked for removal", "", false},
	"data of nobody":          {func(b *bench) { b.put("data/zz/status/record", "{}") }, "the data of an agent or account with the id zz", "no name leads to it", false},
	"two of the same data":    {func(b *bench) { b.put("agents/eve", `{"id":1}`) }, "agent eve has the same data as agent alice", "the same data as", false},
	"an index entry":          {func(b *bench) { b.put("agents/alice", "?") }, "the record of agent alice cannot be read", "cannot be read", false},
	"who is below whom":       {func(b *bench) { b.del("under/team/agents/alice") }, "the index of who is below which account lacks account of alice", "", false},
	"an account that is gone": {func(b *bench) { b.del("accounts/team") }, "the limits put the account below team, which is not there", "below team", false},

	"the ledger's end": {func(b *bench) { b.put("data/1/budget/ledger/size", "99999") }, "agents/alice/budget: of the ledger only the first", "of the ledger only the first", false},
	"the ledger's lines": {func(b *bench) {
		b.put("data/1/budget/ledger/b/0000000000000000", strings.Repeat("x", 600))
		b.put("data/1/budget/ledger/size", "600")
	}, "of the ledger cannot be read", "cannot be read", false},
	"the books": {func(b *bench) { b.set("data/1/budget/totals", map[string]any{"held": 77, "holds": 1}) },
		"the books have 0 µ$ spent and 77 µ$ in 1 holds, and the ledger comes to 0 µ$, and 0 µ$ in 0 holds", "", true},
	"what was spent": {func(b *bench) { b.set("data/1/budget/totals", map[string]any{"total_spent": 500}) },
		"the books have 500 µ$ spent", "the books have 500 µ$ spent", false},
	"a hold of nobody": {func(b *bench) { b.put("data/1/budget/hold/900", `{"max":50,"what":"a job"}`) },
		"50 µ$ are held (hold 900, a job), and the ledger has no line for it", "", true},
	"an account's hold": {func(b *bench) { b.put("data/3/budget/x", ""); b.put("data/3/hold/9", `{"max":5,"what":"w"}`) },
		"accounts/team: 5 µ$ are held (hold 9, w), and the ledger has no line for it", "", true},
	"an approval without money": {func(b *bench) { b.put("data/1/budget/wait/00000000000000000007", `{"id":"7","what":"w"}`) }, "approval 7 (w) waits for an answer, and no money is held for it", "", false},

	"a job that is not listed": {func(b *bench) { b.del("data/1/compute/list/" + one) }, "agents/alice/compute: the list of jobs lacks job 1", "", false},
	"a job that is not there":  {func(b *bench) { b.put("data/1/compute/list/0000000000000044", "") }, "the list of jobs has job 44, which does not belong there", "", false},
	"an end that is not known": {func(b *bench) { b.del(b.first("data/1/compute/end/")) }, "the index of jobs that have ended lacks job 1", "", false},
	"a job's record":           {func(b *bench) { b.put("data/1/compute/rec/"+one, "?") }, "the record of job 1 cannot be read", "cannot be read", false},
	"a job's record and its key": {func(b *bench) {
		b.set("data/1/compute/rec/"+one, map[string]any{"number": 44})
		b.del("data/1/compute/list/" + one) // which is found all the same
		b.put("data/1/compute/req/0000000000000044", "x")
	}, "agents/alice/compute: the record of job 1 says that it is of job 44\nagents/alice/compute: the list of jobs lacks job 1\nagents/alice/compute: there is data of job 0000000000000044",
		"the record of job 1 says that it is of job 44", false},
	"a job without a number": {func(b *bench) {
		b.put("data/1/compute/rec/first", "{}")
		b.set("data/1/compute/totals", map[string]any{"held": 5})
	}, `there is a record of a job called "rec/first", which is no number`, "which is no number", false},
	"a job's result":     {func(b *bench) { b.del("data/1/compute/res/" + one) }, "the result of job 1 has 0 bytes", "the result of job 1", false},
	"a job's output":     {func(b *bench) { b.put("data/1/compute/out/"+one+"/size", "50000") }, "of the output of job 1 only the first", "only the first", false},
	"a job's number":     {func(b *bench) { b.put("data/1/compute/next", "0") }, "the latest job is counted as 0, and there is job", "", false},
	"sums over jobs":     {func(b *bench) { b.set("data/1/compute/totals", map[string]any{"held": 5}) }, "the sums over all jobs", "", false},
	"data of no job":     {func(b *bench) { b.put("data/1/compute/req/0000000000000044", "x") }, "there is data of job 0000000000000044, which is not there", "", false},
	"an idempotency key": {func(b *bench) { b.put("data/1/compute/key/k", `{"job":1,"expires":"2026-01-01T00:00:00Z"}`) }, "the idempotency key k never expires", "", false},
	"a job that never ended": {func(b *bench) {
		b.set("data/1/compute/rec/"+one, map[string]any{"state": "running", "hold": "44"})
		b.put("data/1/compute/open/"+one, "")
		b.del(b.first("data/1/compute/end/"))
	}, "compute job 1 has not ended, and its hold 44 is missing", "compute job 1 has not ended", false},

	"a sandbox that is not listed": {func(b *bench) { b.del("data/1/containers/list/" + one) }, "the list of sessions lacks session 1", "", false},
	"a sandbox's record and its key": {func(b *bench) {
		b.set("data/1/containers/rec/"+one, map[string]any{"number": 44})
		b.del("data/1/containers/list/" + one)
	}, "agents/alice/containers: the record of session 1 says that it is of session 44\nagents/alice/containers: the list of sessions lacks session 1", "the record of session 1 says", false},
	"sums over sandboxes": {func(b *bench) { b.set("data/1/containers/totals", map[string]any{"ended": 9}) }, "the sums over all sessions", "", false},
	"an output's index": {func(b *bench) {
		b.put("data/1/containers/out/"+one+"/i/b/0000000000000000", "123")
		b.put("data/1/containers/out/"+one+"/i/size", "3")
	}, "ends in the middle of an entry", "in the middle of an entry", false},

	"a conversation's index": {func(b *bench) { b.del(b.first("data/1/sessions/idle/")) }, "the index of sessions that will end by themselves lacks session 1", "", false},
	"a conversation's record and its key": {func(b *bench) {
		b.set("data/1/sessions/rec/"+one, map[string]any{"number": 44})
		b.put("data/1/sessions/totals", `{"open":7,"kept":0}`)
	}, "agents/alice/sessions: the record of session 1 says that it is of session 44\nagents/alice/sessions: 7 open sessions", "the record of session 1 says", false},
	"a conversation's counts": {func(b *bench) { b.set("data/1/sessions/rec/"+one, map[string]any{"lines": 44}) }, "the record of session 1 has 44 lines", "", false},
	"conversations' sums":     {func(b *bench) { b.put("data/1/sessions/totals", `{"open":7,"kept":0}`) }, "7 open sessions and 0 bytes of ended ones are counted", "", false},
	"a prompt that is gone": {func(b *bench) {
		b.set("data/1/sessions/rec/"+one, map[string]any{"running": 8})
		b.del(b.first("data/1/sessions/idle/"))
		b.put("data/1/sessions/work/"+one, "")
	}, "session 1 answers prompt 8, which is not there", "answers prompt 8", false},

	"messages' counts":      {func(b *bench) { b.set("data/1/inbox/counts", map[string]any{"waiting": 7}) }, "7 messages are counted as waiting", "", false},
	"messages' order":       {func(b *bench) { b.del(b.first("data/1/inbox/q/")) }, "the order of messages that wait lacks place", "", false},
	"a message's place":     {func(b *bench) { b.del(b.first("data/1/inbox/i/")) }, "is stored, and nobody knows where it waits", "", false},
	"a message's text":      {func(b *bench) { b.del(b.first("data/1/inbox/m/")) }, "is gone", "", false},
	"a remembered id":       {func(b *bench) { b.put("data/1/inbox/k/id/x", "operator") }, "the id x would be remembered for ever", "", false},
	"a remembered place":    {func(b *bench) { b.put("data/1/inbox/k/at/0000000000009", "x") }, "is remembered in a place that it cannot have", "", false},
	"the trajectory":        {func(b *bench) { b.put("data/1/logs/trajectory/b/00000000000000ff", "x") }, "the trajectory has blocks past its end", "", false},
	"the ticks' numbers":    {func(b *bench) { b.set("data/2/ticks/record", map[string]any{"alarm": 0}) }, "the latest alarm is counted as 0", "", false},
	"an alarm":              {func(b *bench) { b.put("data/2/ticks/a/1", `{"id":"1","cron":"nonsense","next":1}`) }, "alarm 1 cannot ring", "", false},
	"a retry of nothing":    {func(b *bench) { b.put("data/2/ticks/r/o/77", `{"tries":1}`) }, "a tick for o/77 is to be tried again", "", false},
	"the schedule":          {func(b *bench) { b.del(b.first("due/of/")); b.del(b.first("due/t/")) }, "something waits for a tick of agent bob, and the schedule does not know of it", "", false},
	"the schedule's times":  {func(b *bench) { b.del(b.first("due/t/")) }, "the schedule lacks agent bob", "", false},
	"the schedule's agents": {func(b *bench) { b.put("due/of/eve", "q/0000000000000001/eve"); b.put("due/q/0000000000000001/eve", "") }, "the schedule has agent eve, which is not there", "", false},
	"a schedule's entry":    {func(b *bench) { b.put("due/of/bob", "?") }, "when agent bob is due cannot be read", "", false},

	"a configuration":  {func(b *bench) { b.put("data/2/status/config", "?") }, "the agent's configuration cannot be read", "configuration cannot be read", false},
	"no configuration": {func(b *bench) { b.del("data/1/status/config") }, "the agent has no configuration", "", false},
	"no record":        {func(b *bench) { b.del("data/1/status/record") }, "the agent's record is gone", "", false},
	"a policy":         {func(b *bench) { b.put("data/1/compute/policy", "?") }, "the policy cannot be read", "the policy", false},
	"a key":            {func(b *bench) { b.del("data/1/identity/key") }, "the agent has no key", "no key", false},
	"a key of another": {func(b *bench) {
		other, _ := b.st.Get(b.Context(), "data/2/identity/key")
		b.put("data/1/identity/key", string(other))
	}, "the private key cannot be used", "cannot be used", false},
	"a secret": {func(b *bench) { b.set("data/1/secrets/tok", map[string]any{"sealed": "AAAA"}) }, "the secret tok cannot be opened", "cannot be opened", false},
	"the ring": {func(b *bench) { b.set("keyring/ring", map[string]any{"version": 9}) }, "the record of the key ring is damaged", "key ring is damaged", false},

	"a token's index":   {func(b *bench) { b.del(b.first("tokens/agent/")) }, "the index of agents' tokens lacks token", "", false},
	"a token of nobody": {func(b *bench) { b.set(b.first("tokens/token/"), map[string]any{"agent": "eve"}) }, "is for agent eve, which is not there", "", false},

	"a file's record":    {func(b *bench) { b.del("data/1/goals/i/0000000000000002") }, "today is in its directory, and has no record", "", false},
	"a file's entry":     {func(b *bench) { b.del("data/1/goals/d/0000000000000001/today") }, "the file today (number 2) is in no directory that can be reached", "", false},
	"a file's name":      {func(b *bench) { b.set("data/1/goals/i/0000000000000002", map[string]any{"name": "other"}) }, "the record of today has another name or directory", "", false},
	"a file's kind":      {func(b *bench) { b.put("data/1/goals/d/0000000000000001/today", `{"ino":2,"dir":true}`) }, "its directory has the wrong type for today", "", false},
	"a file's end":       {func(b *bench) { b.set("data/1/goals/i/0000000000000002", map[string]any{"size": 1}) }, "the file today has 1 bytes, and content up to 5", "", false},
	"two names":          {func(b *bench) { b.put("data/1/goals/d/0000000000000001/again", `{"ino":2}`) }, "is the same file as", "", false},
	"content of no file": {func(b *bench) { b.put("data/1/goals/b/0000000000000009/0000000000000000", "x") }, "there is content of file number 9, which is not there", "", false},
	"an orphan":          {func(b *bench) { b.put("data/1/goals/o/0000000000000009", "{}") }, "is marked as removed while it was open, and does not exist", "", false},
	"a removed file":     {func(b *bench) { b.put("data/1/goals/i/0000000000000009", `{"perm":420,"size":3,"version":1}`) }, "file number 9 was removed, and its 3 bytes are still there", "", false},
	"a mark":             {func(b *bench) { b.put("data/1/goals/t/0000000000000009", `"x"`) }, "is marked as written and not yet reported, and does not exist", "", false},
	"files' counts":      {func(b *bench) { b.put("data/1/goals/u", `{"last":2,"bytes":99,"entries":7}`) }, "7 files with 99 bytes are counted", "", false},
	"a ring of directories": {func(b *bench) {
		b.put("data/1/goals/i/0000000000000008", `{"dir":true,"perm":493,"version":1,"parent":9,"name":"a"}`)
		b.put("data/1/goals/i/0000000000000009", `{"dir":true,"perm":493,"version":1,"parent":8,"name":"b"}`)
		b.put("data/1/goals/d/0000000000000009/a", `{"ino":8,"dir":true}`)
		b.put("data/1/goals/d/0000000000000008/b", `{"ino":9,"dir":true}`)
	}, "is in no directory that can be reached", "", false},
}

// Every way to break a store is found, said, and mended if it can be.
func TestCheckFindsWhatIsBroken(t *testing.T) {
	pairs, key := keptPairs(t)
	open := func(t *testing.T) *bench {
		b := &bench{T: t, st: mem.New()}
		require.NoError(t, b.st.Update(t.Context(), func(tx store.Store) error {
			for _, p := range pairs {
				if err := tx.Put(t.Context(), p.Key, p.Value); err != nil {
					return err
				}
			}
			return nil
		}))
		var err error
		b.ring, err = identity.RingFromFile(t.Context(), store.Sub(b.st, host.KeyRingPart), key)
		require.NoError(t, err)
		return b
	}
	require.Empty(t, said(open(t).findings()))
	for what, c := range breaks {
		t.Run(what, func(t *testing.T) {
			b := open(t)
			c.do(b)
			found := b.findings()
			require.Contains(t, said(found), c.says)
			money := false
			for _, f := range found {
				require.NotEmpty(t, f.Do)
				money = money || f.Money
			}
			require.Equal(t, c.money, money, said(found))
			left := said(b.repair())
			if c.left == "" {
				require.Empty(t, left)
				require.Empty(t, said(b.findings()))
			} else {
				require.Contains(t, left, c.left)
			}
		})
	}
}

// What was mended is what a daemon opens: the agents are there, and the money
// is what it was.
func TestKeptStoreOpens(t *testing.T) {
	dir := kept(t)
	db, err := bolt.OpenWith(filepath.Join(dir, host.DatabaseName), bolt.Options{Steps: host.Steps()})
	require.NoError(t, err)
	defer db.Close()
	b, err := db.Get(context.Background(), "agents/alice")
	require.NoError(t, err)
	require.True(t, json.Valid(b))
}
