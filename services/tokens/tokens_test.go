package tokens

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"agent9/fsys"
	"agent9/fsys/fstest"
	"agent9/store"
	"agent9/store/mem"
)

type note = func(tx store.Store, event string, detail any) error

func open(t *testing.T, st store.Updater, note note) *Tokens {
	t.Helper()
	return openAt(t, st, Options{Note: note})
}

func openAt(t *testing.T, st store.Updater, opts Options) *Tokens {
	t.Helper()
	tk, err := Open(t.Context(), st, opts)
	if err != nil {
		t.Fatal(err)
	}
	return tk
}

// watched is open, with what ends tokens at their time until the test ends.
func watched(t *testing.T, st store.Updater, opts Options) *Tokens {
	t.Helper()
	tk := openAt(t, st, opts)
	go tk.Watch(t.Context())
	return tk
}

func grant(t *testing.T, agent, rights string, life time.Duration) Grant {
	t.Helper()
	r, err := ParseRights(rights)
	if err != nil {
		t.Fatal(err)
	}
	g := Grant{Agent: agent, Rights: r}
	if life > 0 {
		g.Expires = time.Now().Add(life)
	}
	return g
}

func issue(t *testing.T, tk *Tokens, g Grant) (secret, id string) {
	t.Helper()
	secret, id, err := tk.Issue(t.Context(), g)
	if err != nil {
		t.Fatal(err)
	}
	return secret, id
}

func lookup(t *testing.T, ctx context.Context, tk *Tokens, secret string) (Grant, <-chan struct{}) {
	t.Helper()
	g, done, err := tk.Lookup(ctx, secret)
	if err != nil {
		t.Fatal(err)
	}
	if closed(done) {
		t.Error("the session has ended before it began")
	}
	return g, done
}

// elapse advances the clock of the bubble.
func elapse(d time.Duration) { <-time.After(d) }

func closed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

func names(t *testing.T, tk *Tokens) (list []string) {
	t.Helper()
	entries, err := fsys.List(t.Context(), tk.Root())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		list = append(list, e.Name)
	}
	return list
}

func stored(t *testing.T, st store.Store) (text string, keys int) {
	t.Helper()
	for p, err := range store.All(t.Context(), st, "") {
		if err != nil {
			t.Fatal(err)
		}
		text += p.Key + " " + string(p.Value) + "\n"
		keys++
	}
	return text, keys
}

func TestIssueAndLookup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := mem.New()
		tk := open(t, store.Sub(st, "tokens/"), nil)
		g := grant(t, "alice", "r,/inbox:rw", time.Hour)
		g.Label = "bob's laptop"
		secret, id := issue(t, tk, g)
		if len(secret) != 46 || !strings.HasPrefix(secret, "a9_") {
			t.Errorf("secret %q, want a9_ and 43 characters", secret)
		}
		got, _ := lookup(t, t.Context(), tk, secret)
		want := g
		want.ID, want.Created = id, time.Now().UTC()
		if fmt.Sprint(got) != fmt.Sprint(Grant{want.ID, want.Agent, want.Rights, want.Expires.UTC(), want.Created, want.Label, ""}) {
			t.Errorf("got  %v\nwant %v", got, want)
		}
		text, _ := stored(t, st)
		if strings.Contains(text, secret[3:]) || !strings.Contains(text, id) {
			t.Error("the secret is stored")
		}
		if other, otherID := issue(t, tk, g); other == secret || otherID == id {
			t.Error("two tokens are the same")
		}
		again, _ := lookup(t, t.Context(), open(t, store.Sub(st, "tokens/"), nil), secret)
		if fmt.Sprint(again) != fmt.Sprint(got) {
			t.Errorf("after a restart: %v, want %v", again, got)
		}
	})
}

func TestWhatOpensNothingIsAlike(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tk := open(t, mem.New(), nil)
		expired, _ := issue(t, tk, grant(t, "alice", "rw", time.Second))
		revoked, id := issue(t, tk, grant(t, "alice", "rw", 0))
		good, _ := issue(t, tk, grant(t, "alice", "rw", 0))
		if err := tk.Revoke(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		elapse(time.Second)
		for name, secret := range map[string]string{
			"expired": expired, "revoked": revoked, "another": Prefix + strings.Repeat("A", 43), "an id": id,
			"empty": "", "cut": good[:45], "longer": good + "A", "without a9_": "a8_" + good[3:], "upper case": strings.ToUpper(good),
		} {
			g, done, err := tk.Lookup(t.Context(), secret)
			if err != Unknown || done != nil || g.Agent != "" {
				t.Errorf("%s: %v, %v; want nothing and the error Unknown", name, g, err)
			}
		}
		if fsys.CodeOf(Unknown) != fsys.Permission {
			t.Errorf("Unknown is %v, want %v", fsys.CodeOf(Unknown), fsys.Permission)
		}
		if len(tk.live.tokens) != 0 {
			t.Errorf("%d tokens are watched for nobody", len(tk.live.tokens))
		}
	})
}

func TestExpiryEndsSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tk := watched(t, mem.New(), Options{})
		short, _ := issue(t, tk, grant(t, "alice", "rw", time.Minute))
		long, _ := issue(t, tk, grant(t, "alice", "rw", time.Hour))
		_, a := lookup(t, t.Context(), tk, short)
		elapse(30 * time.Second)
		_, b := lookup(t, t.Context(), tk, short)
		_, c := lookup(t, t.Context(), tk, long)
		elapse(30*time.Second - time.Millisecond)
		synctest.Wait()
		if closed(a) || closed(b) {
			t.Error("the sessions ended before the token expired")
		}
		elapse(time.Millisecond)
		synctest.Wait()
		if !closed(a) || !closed(b) {
			t.Error("the sessions did not end when the token expired")
		}
		if closed(c) {
			t.Error("the session of another token ended")
		}
	})
}

func TestRevokeEndsSessions(t *testing.T) {
	tk := open(t, mem.New(), nil)
	secret, id := issue(t, tk, grant(t, "alice", "rw", time.Hour))
	other, _ := issue(t, tk, grant(t, "alice", "rw", 0))
	_, a := lookup(t, t.Context(), tk, secret)
	_, b := lookup(t, t.Context(), tk, secret)
	_, c := lookup(t, t.Context(), tk, other)
	if err := tk.Revoke(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if !closed(a) || !closed(b) {
		t.Error("the sessions of a revoked token go on")
	}
	if closed(c) {
		t.Error("the session of another token ended")
	}
	if err := tk.Revoke(t.Context(), id); !errors.Is(err, fsys.NotExist) {
		t.Errorf("revoked again: %v, want %v", err, fsys.NotExist)
	}
}

func TestRevokeAgentIsPartOfATransaction(t *testing.T) {
	st := mem.New()
	tk := open(t, store.Sub(st, "tokens/"), nil)
	secret, id := issue(t, tk, grant(t, "alice", "rw", time.Hour))
	issue(t, tk, grant(t, "alice", "r", 0))
	_, bobID := issue(t, tk, grant(t, "alic", "r", 0))
	_, done := lookup(t, t.Context(), tk, secret)
	change := errors.New("undone")
	revoke := func() error {
		return st.Update(t.Context(), func(tx store.Store) error {
			if err := tk.RevokeAgent(t.Context(), tx, "alice"); err != nil {
				t.Fatal(err)
			}
			return change
		})
	}
	if err := revoke(); err != change {
		t.Fatal(err)
	}
	if closed(done) || !slices.Contains(names(t, tk), id) {
		t.Error("tokens were revoked by a transaction that was undone")
	}
	change = nil
	if err := revoke(); err != nil {
		t.Fatal(err)
	}
	if !closed(done) {
		t.Error("the session goes on")
	}
	if got := names(t, tk); !slices.Equal(got, []string{bobID}) {
		t.Errorf("tokens left: %v, want only %v of alic", got, bobID)
	}
	if text, keys := stored(t, st); keys != 2 {
		t.Errorf("%d records are left for one token without an expiry, want 2:\n%s", keys, text)
	}
}

func TestNobodyWatchesForASessionThatEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tk := open(t, mem.New(), nil)
		secret, _ := issue(t, tk, grant(t, "alice", "rw", time.Hour))
		ctx, hangUp := context.WithCancel(t.Context())
		_, a := lookup(t, ctx, tk, secret)
		other, leave := context.WithCancel(t.Context())
		_, b := lookup(t, other, tk, secret)
		hangUp()
		synctest.Wait()
		if !closed(a) || closed(b) {
			t.Errorf("the first session ended: %v, the second: %v; want the first only", closed(a), closed(b))
		}
		if len(tk.live.tokens) != 1 {
			t.Errorf("%d tokens are watched, want the one with a session", len(tk.live.tokens))
		}
		leave()
		synctest.Wait()
		if len(tk.live.tokens) != 0 {
			t.Errorf("%d tokens are watched, want none", len(tk.live.tokens))
		}
	})
}

// TestRevokeMissesNoLookup has sessions begin while the token is revoked:
// none may go on.
func TestRevokeMissesNoLookup(t *testing.T) {
	tk := open(t, mem.New(), nil)
	for range 200 {
		secret, id := issue(t, tk, grant(t, "alice", "rw", time.Hour))
		var wg sync.WaitGroup
		var began [4]<-chan struct{}
		for i := range began {
			wg.Go(func() { _, began[i], _ = tk.Lookup(t.Context(), secret) })
		}
		if err := tk.Revoke(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		for _, done := range began {
			if done != nil && !closed(done) {
				t.Fatal("a session of a revoked token goes on")
			}
		}
	}
}

func TestExpiredTokensAreSwept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := mem.New()
		tk := open(t, st, nil)
		_, a := issue(t, tk, grant(t, "alice", "rw", time.Minute))
		_, b := issue(t, tk, grant(t, "bob", "rw", time.Hour))
		elapse(time.Minute)
		if got := names(t, tk); !slices.Equal(got, []string{b}) {
			t.Errorf("listed: %v, want %v", got, b)
		}
		if _, err := fsys.Walk(t.Context(), tk.Root(), a); !errors.Is(err, fsys.NotExist) {
			t.Errorf("walk to an expired token: %v, want %v", err, fsys.NotExist)
		}
		_, c := issue(t, tk, grant(t, "carol", "rw", 0))
		if text, keys := stored(t, st); strings.Contains(text, a) || keys != 3+2 {
			t.Errorf("%d records, want 3 of bob and 2 of carol:\n%s", keys, text)
		}
		elapse(time.Hour)
		open(t, st, nil)
		if text, keys := stored(t, st); !strings.Contains(text, c) || keys != 2 {
			t.Errorf("%d records after a restart, want 2 of carol:\n%s", keys, text)
		}
	})
}

func TestTree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tk := open(t, mem.New(), nil)
		if err := fstest.CheckTree(t.Context(), tk.Root()); err != nil {
			t.Error(err)
		}
		g := grant(t, "alice", "/inbox:rw,r", 90*time.Minute)
		g.Label = "phone"
		secret, id := issue(t, tk, g)
		_, forever := issue(t, tk, grant(t, "bob", "rw", 0))
		if err := fstest.CheckTree(t.Context(), tk.Root(), id, forever); err != nil {
			t.Error(err)
		}
		_, done := lookup(t, t.Context(), tk, secret)
		for name, want := range map[string]string{ // the clock here begins in 2000
			id: `{"id":"` + id + `","agent":"alice","rights":"r,/inbox:rw","expires":"2000-01-01T01:30:00.000Z",` +
				`"created":"2000-01-01T00:00:00.000Z","label":"phone"}` + "\n",
			forever: `{"id":"` + forever + `","agent":"bob","rights":"rw","expires":"never","created":"2000-01-01T00:00:00.000Z"}` + "\n",
		} {
			got, err := fsys.ReadFile(t.Context(), tk.Root(), name)
			if err != nil || string(got) != want {
				t.Errorf("%s, %v; want %s", got, err, want)
			}
		}
		n, err := fsys.Walk(t.Context(), tk.Root(), id)
		if err != nil {
			t.Fatal(err)
		}
		if err := fsys.Remove(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		if !closed(done) {
			t.Error("rm did not end the session")
		}
		if _, err := n.Stat(t.Context()); !errors.Is(err, fsys.NotExist) {
			t.Errorf("stat after rm: %v, want %v", err, fsys.NotExist)
		}
		if got := names(t, tk); !slices.Equal(got, []string{forever}) {
			t.Errorf("left after rm: %v, want %v", got, forever)
		}
		for _, name := range []string{id, id[:15], "token", strings.Repeat("x", 16), forever + "0"} {
			if _, err := fsys.Walk(t.Context(), tk.Root(), name); !errors.Is(err, fsys.NotExist) {
				t.Errorf("walk to %q: %v, want %v", name, err, fsys.NotExist)
			}
		}
	})
}

func TestIssueRefusals(t *testing.T) {
	st := mem.New()
	tk := open(t, st, nil)
	good := grant(t, "alice", "rw", time.Hour)
	for name, spoil := range map[string]func(*Grant){
		"no agent":      func(g *Grant) { g.Agent = "" },
		"two agents":    func(g *Grant) { g.Agent = "alice/bob" },
		"no rights":     func(g *Grant) { g.Rights = Rights{} },
		"expired":       func(g *Grant) { g.Expires = time.Now() },
		"two lines":     func(g *Grant) { g.Label = "a\nb" },
		"not UTF-8":     func(g *Grant) { g.Label = "\xff" },
		"a long label":  func(g *Grant) { g.Label = strings.Repeat("x", 129) },
		"years ago too": func(g *Grant) { g.Expires = time.Unix(1, 0) },
	} {
		g := good
		spoil(&g)
		if secret, id, err := tk.Issue(t.Context(), g); fsys.CodeOf(err) != fsys.Invalid || secret+id != "" {
			t.Errorf("%s: %q, %v; want %v", name, secret+id, err, fsys.Invalid)
		}
	}
	if text, keys := stored(t, st); keys != 0 {
		t.Errorf("something was stored: %s", text)
	}
}

func TestEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events []string
		var broken error
		st := mem.New()
		tk := open(t, st, func(_ store.Store, event string, detail any) error {
			events = append(events, event+" "+string(fsys.Line(detail)))
			return broken
		})
		secret, id := issue(t, tk, grant(t, "alice", "r", 0))
		if err := tk.Revoke(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		detail := `{"id":"` + id + `","agent":"alice","rights":"r","expires":"never","created":"2000-01-01T00:00:00.000Z"}` + "\n"
		if want := []string{"token.issued " + detail, "token.revoked " + detail}; !slices.Equal(events, want) {
			t.Errorf("events %q, want %q", events, want)
		}
		if strings.Contains(strings.Join(events, ""), secret[3:]) {
			t.Error("an event has the secret")
		}
		broken = fsys.NoSpace
		if secret, _, err := tk.Issue(t.Context(), grant(t, "alice", "r", 0)); secret != "" || !errors.Is(err, fsys.NoSpace) {
			t.Errorf("a token that could not be recorded: %q, %v", secret, err)
		}
		if text, keys := stored(t, st); keys != 0 {
			t.Errorf("something was stored: %s", text)
		}
	})
}

// counting counts the reads.
type counting struct {
	store.Updater
	gets, lists int
}

func (c *counting) Get(ctx context.Context, key string) ([]byte, error) {
	c.gets++
	return c.Updater.Get(ctx, key)
}

func (c *counting) List(ctx context.Context, prefix, after string, n int) ([]store.Pair, error) {
	c.lists++
	return c.Updater.List(ctx, prefix, after, n)
}

func TestLookupIsOneRead(t *testing.T) {
	tk := open(t, mem.New(), nil)
	secret, _ := issue(t, tk, grant(t, "alice", "rw", time.Hour))
	c := &counting{Updater: tk.st}
	tk.st = c
	lookup(t, t.Context(), tk, secret)
	if c.gets != 1 || c.lists != 0 {
		t.Errorf("%d gets and %d lists, want 1 and 0", c.gets, c.lists)
	}
}
