package fsys_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agent9/fsys"
)

// conversation opens a Call that answers "<n:request>" for its n-th request,
// and refuses the request "bad".
func conversation(t *testing.T, change func(*fsys.Call)) (fsys.Handle, *[]string) {
	t.Helper()
	var got []string
	c := &fsys.Call{Do: func(_ context.Context, req []byte) ([]byte, error) {
		got = append(got, string(req))
		if strings.Contains(string(req), "bad") {
			return nil, fsys.E(fsys.Invalid, "it is bad")
		}
		return []byte("<" + string(req) + ">\n"), nil
	}}
	if change != nil {
		change(c)
	}
	h, err := c.Open(t.Context(), fsys.Read|fsys.Write)
	require.NoError(t, err)
	return h, &got
}

func write(t *testing.T, h fsys.Handle, s string) error {
	n, err := fsys.WriteAt(t.Context(), h, []byte(s), 12345)
	if err == nil {
		require.Equal(t, len(s), n)
	}
	return err
}

func read(t *testing.T, h fsys.Handle) (string, error) {
	var all []byte
	for {
		p := make([]byte, 7)
		n, err := fsys.ReadAt(t.Context(), h, p, 999)
		all = append(all, p[:n]...)
		if errors.Is(err, io.EOF) {
			return string(all), nil
		}
		if err != nil {
			return string(all), err
		}
	}
}

func TestCallJSONActsInTheWriteThatCompletesIt(t *testing.T) {
	h, got := conversation(t, nil)
	require.NoError(t, write(t, h, "\n {\"a\": \"}\\\"{\""))
	require.Empty(t, *got)
	require.NoError(t, write(t, h, ",\"b\":[1,{}]} \n"))
	require.Equal(t, []string{`{"a": "}\"{","b":[1,{}]}`}, *got)
	reply, err := read(t, h)
	require.NoError(t, err)
	require.Equal(t, "<"+(*got)[0]+">\n", reply)
	reply, err = read(t, h)
	require.NoError(t, err)
	require.Empty(t, reply, "a reply is given once")

	require.NoError(t, write(t, h, `{"n":1}`))
	require.Error(t, write(t, h, `{"bad":1}`))
	reply, err = read(t, h)
	require.Equal(t, "<{\"n\":1}>\n", reply)
	require.Equal(t, fsys.Invalid, fsys.CodeOf(err), "the error is read after the replies before it")
}

func TestCallManyRequestsInOneWrite(t *testing.T) {
	h, got := conversation(t, nil)
	require.NoError(t, write(t, h, "{\"a\":1}\n{\"a\":2}\n"))
	require.Len(t, *got, 2)
	reply, _ := read(t, h)
	require.Equal(t, "<{\"a\":1}>\n<{\"a\":2}>\n", reply)
}

func TestCallNothingActsBeforeAMistake(t *testing.T) {
	h, got := conversation(t, nil)
	err := write(t, h, `{"a":1}}`)
	require.Equal(t, fsys.Invalid, fsys.CodeOf(err))
	require.NoError(t, fsys.Sync(t.Context(), h))
	require.Empty(t, *got)
}

// A write that is one request is refused with two before anything acts; in others
// the replies of those that acted are read before the error of the one that did not.
func TestCallOneRequest(t *testing.T) {
	h, got := conversation(t, nil)
	one := fsys.OneRequest(t.Context())
	for _, two := range []string{`{"a":1}{"bad":2}`, "{}\n{}", `{"a":1} x`} {
		if _, err := fsys.WriteAt(one, h, []byte(two), 0); fsys.CodeOf(err) != fsys.Invalid || !strings.Contains(fsys.ReasonOf(err), "nothing was done") {
			t.Errorf("%s: %v", two, err)
		}
	}
	require.Empty(t, *got)
	_, err := fsys.WriteAt(one, h, []byte("{\"a\":1}"), 0)
	require.NoError(t, err)
	_, err = fsys.WriteAt(one, h, []byte("text {\"a\":1}{\"b\":2}"), 0)
	require.NoError(t, err)
	reply, _ := read(t, h)
	require.Equal(t, "<{\"a\":1}>\n<text {\"a\":1}{\"b\":2}>\n", reply)

	require.Error(t, write(t, h, `{"a":1}{"bad":2}{"c":3}`))
	reply, err = read(t, h)
	require.Equal(t, "<{\"a\":1}>\n", reply)
	require.Equal(t, fsys.Invalid, fsys.CodeOf(err))
	require.NotContains(t, *got, `{"c":3}`)

	_, err = fsys.WriteAt(one, h, []byte("{\"d\":4} \r\n\t"), 0)
	require.NoError(t, err)
	raw, got := conversation(t, func(c *fsys.Call) { c.Raw = true })
	_, err = fsys.WriteAt(one, raw, []byte(`{}{}`), 0)
	require.NoError(t, err)
	require.NoError(t, fsys.Sync(t.Context(), raw))
	require.Equal(t, []string{`{}{}`}, *got)
}

// A byte order mark before JSON is passed over, in whatever pieces it comes.
func TestByteOrderMark(t *testing.T) {
	h, got := conversation(t, nil)
	for _, piece := range []string{"\uFEFF{}", "\xEF", "\xBB\xBF", " {\"a\":1}\n\uFEFF{\"b\":2}"} {
		require.NoError(t, write(t, h, piece))
	}
	require.Equal(t, []string{`{}`, `{"a":1}`, `{"b":2}`}, *got)
	require.NoError(t, write(t, h, "\uFB01ne")) // begins with the same byte
	require.NoError(t, fsys.Sync(t.Context(), h))
	require.Equal(t, "\uFB01ne", (*got)[3])

	stored := ""
	d := &fsys.Doc{
		Load: func(context.Context) ([]byte, error) { return nil, nil },
		Save: func(_ context.Context, b []byte) error { stored = string(b); return nil },
	}
	for _, pieces := range [][]string{{"\uFEFF{\"a\":1}"}, {"\xEF\xBB", "\xBF{\"a\":", "1}"}} {
		stored = ""
		w, err := d.Open(t.Context(), fsys.Write)
		require.NoError(t, err)
		off := 0
		for _, p := range pieces {
			_, err := fsys.WriteAt(t.Context(), w, []byte(p), int64(off))
			require.NoError(t, err)
			off += len(p)
		}
		require.NoError(t, fsys.Finish(t.Context(), w))
		require.Equal(t, `{"a":1}`, stored)
	}
	var v struct{ A int }
	require.NoError(t, fsys.Strictly([]byte("\uFEFF{\"a\":1}"), &v))
}

func TestCallPlainText(t *testing.T) {
	for name, end := range map[string]func(h fsys.Handle) error{
		"read": func(h fsys.Handle) error { _, err := read(t, h); return err },
		"sync": func(h fsys.Handle) error { return fsys.Sync(t.Context(), h) },
	} {
		t.Run(name, func(t *testing.T) {
			h, got := conversation(t, nil)
			require.NoError(t, write(t, h, "hello "))
			require.NoError(t, write(t, h, "{world}\n"))
			require.Empty(t, *got)
			require.NoError(t, end(h))
			require.NoError(t, end(h))
			require.Equal(t, []string{"hello {world}"}, *got)

			require.NoError(t, write(t, h, "bad"))
			require.Equal(t, fsys.Invalid, fsys.CodeOf(end(h)))
		})
	}
}

// Only a { begins JSON, and what is no JSON then is told why.
func TestCallTextThatLooksLikeJSON(t *testing.T) {
	for _, text := range []string{"[note] buy milk", "[2026-11-22] a day", "[1]", "[", `"quoted"`} {
		h, got := conversation(t, nil)
		require.NoError(t, write(t, h, text))
		require.NoError(t, fsys.Sync(t.Context(), h))
		require.Equal(t, []string{text}, *got)
	}
	for text, want := range map[string]string{
		"{hello} there": "there is data after the JSON object",
		"{hello}":       "the request is not JSON: invalid character 'h'",
		"{hello":        "the JSON object is not complete",
	} {
		h, got := conversation(t, nil)
		err := write(t, h, text)
		if err == nil {
			err = fsys.Sync(t.Context(), h)
		}
		require.ErrorIs(t, err, fsys.Invalid)
		require.Contains(t, fsys.ReasonOf(err), want)
		require.Contains(t, fsys.ReasonOf(err), "must be JSON")
		require.Empty(t, *got)
	}
}

func TestCallHangUpDoesNotAct(t *testing.T) {
	h, got := conversation(t, nil)
	require.NoError(t, write(t, h, "half a mess"))
	require.NoError(t, h.Close())
	require.Empty(t, *got)
}

func TestCallHalfJSONIsAnErrorAtTheEnd(t *testing.T) {
	h, got := conversation(t, nil)
	require.NoError(t, write(t, h, `{"a":`))
	require.Equal(t, fsys.Invalid, fsys.CodeOf(fsys.Sync(t.Context(), h)))
	require.Empty(t, *got)
	require.NoError(t, write(t, h, `{"a":1}`), "the handle is usable again")
	require.Len(t, *got, 1)
}

func TestCallReadBeforeWrite(t *testing.T) {
	h, _ := conversation(t, nil)
	_, err := read(t, h)
	require.Equal(t, fsys.Busy, fsys.CodeOf(err))
}

func TestCallTooLong(t *testing.T) {
	h, got := conversation(t, func(c *fsys.Call) { c.Limit = 10 })
	require.NoError(t, write(t, h, "0123456789"))
	require.Equal(t, fsys.TooLarge, fsys.CodeOf(write(t, h, "x")))
	require.Equal(t, fsys.TooLarge, fsys.CodeOf(write(t, h, "the rest")), "the rest is not a request")
	require.NoError(t, fsys.Sync(t.Context(), h))
	require.Empty(t, *got)
}

func TestCallRaw(t *testing.T) {
	h, got := conversation(t, func(c *fsys.Call) { c.Raw = true })
	require.NoError(t, write(t, h, "{}\n"))
	require.NoError(t, write(t, h, "\n"))
	require.Empty(t, *got)
	require.NoError(t, fsys.Sync(t.Context(), h))
	require.Equal(t, []string{"{}\n\n"}, *got)
}

func TestCallAdmit(t *testing.T) {
	c := &fsys.Call{Admit: func(context.Context) error { return fsys.Exhausted }}
	_, err := c.Open(t.Context(), fsys.Write)
	require.ErrorIs(t, err, fsys.Exhausted)
	_, err = c.Open(t.Context(), fsys.Read)
	require.NoError(t, err)
}

func TestCallActsInTheNameOfWhoOpened(t *testing.T) {
	var who fsys.Caller
	c := &fsys.Call{Do: func(ctx context.Context, _ []byte) ([]byte, error) {
		who = fsys.CallerOf(ctx)
		return nil, ctx.Err()
	}}
	opening, done := context.WithCancel(fsys.WithCaller(t.Context(), "alice"))
	h, err := c.Open(opening, fsys.Write)
	require.NoError(t, err)
	done()
	_, err = fsys.WriteAt(fsys.WithCaller(t.Context(), "mallory"), h, []byte("{}"), 0)
	require.NoError(t, err, "the open's cancellation is over with the open")
	require.Equal(t, fsys.Caller("alice"), who)
}

func TestCallWaitersGiveUp(t *testing.T) {
	began, release := make(chan struct{}), make(chan struct{})
	c := &fsys.Call{Do: func(context.Context, []byte) ([]byte, error) {
		close(began)
		<-release
		return []byte("ok"), nil
	}}
	h, err := c.Open(t.Context(), fsys.Read|fsys.Write)
	require.NoError(t, err)
	wrote := make(chan error)
	go func() { _, err := fsys.WriteAt(t.Context(), h, []byte("{}"), 0); wrote <- err }()
	<-began
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = fsys.ReadAt(ctx, h, make([]byte, 1), 0)
	require.Equal(t, fsys.Canceled, fsys.CodeOf(err))
	close(release)
	require.NoError(t, <-wrote)
}

func TestCtl(t *testing.T) {
	var did []string
	c := &fsys.Ctl{
		Do: func(_ context.Context, w []string) ([]byte, error) {
			if w[0] == "fail" {
				return nil, fsys.E(fsys.Invalid, "no")
			}
			did = append(did, strings.Join(w, "+"))
			return []byte("did " + w[0] + "\n"), nil
		},
		Text: func(context.Context) ([]byte, error) { return []byte("verbs\n"), nil },
	}
	h, err := c.Open(t.Context(), fsys.Read|fsys.Write)
	require.NoError(t, err)
	text, err := fsys.ReadAll(t.Context(), h)
	require.NoError(t, err)
	require.Equal(t, "verbs\n", string(text))
	require.NoError(t, write(t, h, "one  a\n\ntwo"))
	require.Equal(t, []string{"one+a", "two"}, did)
	reply, err := read(t, h)
	require.NoError(t, err)
	require.Equal(t, "did one\ndid two\n", reply)
	require.Equal(t, fsys.Invalid, fsys.CodeOf(write(t, h, "three\nfail\nfour\n")))
	require.Equal(t, []string{"one+a", "two", "three"}, did, "nothing after the mistake")
}

func TestDoc(t *testing.T) {
	stored, saves := "{\"a\":1}\n", 0
	d := &fsys.Doc{
		Load: func(context.Context) ([]byte, error) { return []byte(stored), nil },
		Save: func(_ context.Context, b []byte) error {
			if strings.Contains(string(b), "bad") {
				return fsys.E(fsys.Invalid, "bad")
			}
			stored, saves = string(b), saves+1
			return nil
		},
	}
	ctx := t.Context()
	require.NoError(t, d.Truncate(ctx, 0))
	require.Equal(t, "{\"a\":1}\n", stored, "truncated documents stay until there is another")
	h, err := d.Open(ctx, fsys.Read|fsys.Write)
	require.NoError(t, err)
	_, err = fsys.WriteAt(ctx, h, []byte(`{"b":`), 0)
	require.NoError(t, err)
	require.Equal(t, 0, saves)
	_, err = fsys.WriteAt(ctx, h, []byte("2}\n"), 5)
	require.NoError(t, err)
	require.Equal(t, "{\"b\":2}\n", stored)
	require.NoError(t, fsys.Finish(ctx, h))

	require.Equal(t, fsys.Invalid, fsys.CodeOf(fsys.WriteFile(ctx, d, "", []byte(`{"bad":1}`))))
	require.Equal(t, fsys.Invalid, fsys.CodeOf(fsys.WriteFile(ctx, d, "", []byte(`{"half":`))))
	h, err = d.Open(ctx, fsys.Write)
	require.NoError(t, err)
	_, err = fsys.WriteAt(ctx, h, []byte("no JSON\n"), 0)
	require.ErrorIs(t, err, fsys.Invalid, "what cannot become a document fails in the write")
	require.NoError(t, fsys.Finish(ctx, h))
	require.Equal(t, "{\"b\":2}\n", stored)

	h, err = d.Open(ctx, fsys.Write|fsys.Append)
	require.NoError(t, err)
	_, err = fsys.WriteAt(ctx, h, []byte("x"), 0)
	require.NoError(t, err)
	require.Error(t, fsys.Sync(ctx, h), "what was appended makes no document")
}
