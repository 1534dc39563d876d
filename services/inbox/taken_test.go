package inbox_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agent9/fsys"
	"agent9/services/inbox"
	"agent9/store"
	"agent9/store/check"
	"agent9/store/mem"
)

// taken are the ids of what can be had back.
func (b *box) taken() (ids []string) {
	b.t.Helper()
	dir, err := fsys.Walk(b.t.Context(), b.in.Root(), "taken")
	require.NoError(b.t, err)
	list, err := fsys.List(b.t.Context(), dir)
	require.NoError(b.t, err)
	for _, e := range list {
		ids = append(ids, e.Name)
	}
	return ids
}

func (b *box) untake(id string) error {
	_, err := fsys.Converse(b.t.Context(), b.in.Root(), "ctl", []byte("untake "+id+"\n"))
	return err
}

// sound fails if a check finds anything.
func (b *box) sound() {
	b.t.Helper()
	r := check.New()
	require.NoError(b.t, inbox.Check(b.t.Context(), store.Sub(b.st, "inbox/"), r))
	require.Empty(b.t, r.All())
}

func TestWhatWasTakenCanBeHadBack(t *testing.T) {
	b := newBox(t)
	b.now = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	one, two := b.send("one"), b.send(`{"id": "two", "body": "two"}`)
	three := b.send("three")
	require.Equal(t, "one", b.take())
	require.NoError(t, b.remove(two))
	require.Equal(t, []string{one, two}, b.taken())
	require.Equal(t, "three", b.waiting())
	b.sound()
	line, err := fsys.ReadFile(t.Context(), b.in.Root(), "taken/"+two)
	require.NoError(t, err)
	require.Contains(t, string(line), `"body":"two","taken":"2030-01-01T00:00:00.000Z"`)

	b.start() // as after a crash
	b.now = b.now.Add(9 * time.Minute)
	b.send(`{"id": "two", "body": "again"}`)
	require.Equal(t, "three", b.waiting(), "the same message, which was taken")
	require.NoError(t, b.untake("all"))
	require.Equal(t, "one two three", b.waiting(), "each is where it was")
	require.Empty(t, b.taken())
	require.Equal(t, "one", b.take())
	require.ErrorIs(t, b.untake(three), fsys.NotExist, "it waits")
	b.sound()

	b.now = b.now.Add(10 * time.Minute)
	require.ErrorIs(t, b.untake(one), fsys.NotExist)
	require.Empty(t, b.taken())
	stored := func() string {
		list, err := b.st.List(t.Context(), "", "", 100)
		require.NoError(t, err)
		var all strings.Builder
		for _, p := range list {
			all.Write(p.Value)
		}
		return all.String()
	}
	require.Contains(t, stored(), `"body":"one"`)
	b.send("four")
	require.NotContains(t, stored(), `"body":"one"`, "what is too old goes with the next change")

	require.NoError(t, b.remove(two))
	require.NoError(t, fsys.Remove(t.Context(), must(fsys.WalkPath(t.Context(), b.in.Root(), "taken/"+two))))
	require.Empty(t, b.taken(), "what was removed there too is gone")
	b.sound()
}

func TestWhatCanBeHadBackIsBounded(t *testing.T) {
	b := newBox(t)
	large := strings.Repeat("x", 1<<20-100)
	var ids []string
	for range 6 {
		ids = append(ids, b.send(large))
		b.take()
	}
	require.Equal(t, ids[2:], b.taken(), "4 MiB of them")
	b.sound()
	b.conf = inbox.Config{Limit: 2}
	require.ErrorIs(t, b.untake("all"), fsys.Busy)
	n, _, err := b.in.Depth(t.Context())
	require.NoError(t, err)
	require.Equal(t, 2, n, "as many as there is room for")
	require.Len(t, b.taken(), 2, "the rest stays")
	b.sound()
	for range 1100 {
		b.send("s")
		b.take()
	}
	require.Len(t, b.taken(), 1024)
	b.sound()
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Who cannot wait reads what is in head, and takes nothing of next.
func TestHeadAtOnce(t *testing.T) {
	in := inbox.New(mem.New(), inbox.Options{})
	read := func(name string) (string, error) {
		h, err := fsys.OpenPath(t.Context(), in.Root(), name, fsys.Read)
		if err != nil {
			t.Fatal(err)
		}
		defer h.Close()
		p := make([]byte, 4096)
		n, err := fsys.ReadAt(fsys.AtOnce(t.Context()), h, p, 0)
		return string(p[:n]), err
	}
	if text, err := read("head"); fsys.CodeOf(err) != fsys.Canceled {
		t.Errorf("an empty head: %q, %v", text, err)
	}
	if _, err := fsys.Converse(t.Context(), in.Root(), "new", []byte("hello")); err != nil {
		t.Fatal(err)
	}
	if text, err := read("head"); err != nil || !strings.Contains(text, "hello") {
		t.Errorf("head: %q, %v", text, err)
	}
	if text, err := read("next"); text != "" || err == nil {
		t.Errorf("next: %q, %v", text, err)
	}
}
