package bundle_test

import (
	"bytes"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agent9/fsys"
	"agent9/services/bundle"
	"agent9/store"
)

func pairs(list ...store.Pair) iter.Seq2[store.Pair, error] {
	return func(yield func(store.Pair, error) bool) {
		for _, p := range list {
			if !yield(p, nil) {
				return
			}
		}
	}
}

var (
	inbox = []store.Pair{{Key: "1", Value: []byte("hello\n")}, {Key: "2/\xff", Value: []byte{0, 255}}, {Key: "3", Value: []byte{}}}
	logs  = []store.Pair{{Key: "b/0", Value: bytes.Repeat([]byte("<line & \"line\">\n"), 100)}}
	keys  = []store.Pair{{Key: "ring", Value: []byte("{}")}}
)

func write(t testing.TB, withKeys bool) []byte {
	c := bundle.Contents{Agent9: "v1", Name: "alice", Pubkey: "ab12", Exported: time.Unix(1e9, 0),
		Parts: []bundle.Part{{Name: "inbox", Records: pairs(inbox...)}, {Name: "logs", Records: pairs(logs...)}}}
	if withKeys {
		c.Keys = pairs(keys...)
	}
	var b bytes.Buffer
	require.NoError(t, bundle.Write(&b, c))
	return b.Bytes()
}

func open(b []byte) (*bundle.Bundle, error) { return bundle.Open(bytes.NewReader(b), int64(len(b))) }

func all(t testing.TB, seq iter.Seq2[store.Pair, error]) (list []store.Pair) {
	for p, err := range seq {
		require.NoError(t, err)
		list = append(list, p)
	}
	return list
}

func TestRoundTrip(t *testing.T) {
	for _, withKeys := range []bool{false, true} {
		b, err := open(write(t, withKeys))
		require.NoError(t, err)
		require.Equal(t, "alice ab12 2001-09-09T01:46:40.000Z v1", b.Name+" "+b.Pubkey+" "+b.Exported+" "+b.Agent9)
		require.Equal(t, []string{"inbox", "logs"}, b.Parts())
		require.Equal(t, inbox, all(t, b.Records("inbox")))
		require.Equal(t, logs, all(t, b.Records("logs")))
		require.Empty(t, all(t, b.Records("none")))
		require.Equal(t, withKeys, b.Keys)
		require.Equal(t, withKeys, len(all(t, b.KeyRecords())) == 1)
	}
}

// A bundle that was changed anywhere, or cut off, is noticed.
func TestDamaged(t *testing.T) {
	whole := write(t, true)
	for i := 0; i < len(whole); i += 97 {
		changed := bytes.Clone(whole)
		changed[i] ^= 0x15
		b, err := open(changed)
		if err != nil {
			require.Contains(t, []fsys.Code{fsys.Invalid, fsys.Unsupported}, fsys.CodeOf(err), "byte %d: %v", i, err)
			require.NotEmpty(t, fsys.ReasonOf(err))
			continue
		}
		// Only what is between the members, or in a header and without meaning.
		require.Equal(t, inbox, all(t, b.Records("inbox")), "byte %d", i)
		require.Equal(t, logs, all(t, b.Records("logs")), "byte %d", i)
		require.Equal(t, "alice", b.Name)
	}
	for _, n := range []int{0, 1, 511, 512, 600, 2000, len(whole) / 2, len(whole) - 1024 - 512} {
		_, err := open(whole[:n])
		require.Equal(t, fsys.Invalid, fsys.CodeOf(err), "cut off at %d", n)
	}
}

func TestRefused(t *testing.T) {
	whole := string(write(t, false))
	for what, row := range map[string]struct{ from, to, reason string }{
		"newer":      {`{"format":1,`, `{"format":2,`, `this bundle has format 2, written by agent9 "v1", and this daemon reads 1 at most: use a newer one`},
		"no format":  {`{"format":1,`, `{"farmot":1,`, "this is not a bundle: its manifest.json does not say which format it has"},
		"strange":    {`"records/inbox.jsonl"`, `"records/a/../.jsonl"`, `the bundle has a member that does not belong there: "records/a/../.jsonl"`},
		"twice":      {`"records/inbox.jsonl"`, `"records/logs.jsonl" `, `the bundle has "records/logs.jsonl" twice`},
		"size":       {`"size":`, `"size":-`, ""},
		"other name": {`"name":"alice"`, `"name":"carol"`, "the bundle is damaged: manifest.json is not what was written"},
	} {
		changed := strings.Replace(whole, row.from, row.to, 1)
		_, err := open([]byte(changed))
		require.Error(t, err, what)
		if row.reason != "" {
			require.Equal(t, row.reason, fsys.ReasonOf(err), what)
		}
	}
	_, err := open([]byte("#!/bin/sh\n" + strings.Repeat("echo\n", 1000)))
	require.Equal(t, "this is not a bundle: it does not begin with a manifest.json as agentctl export writes it", fsys.ReasonOf(err))
}

func TestExtent(t *testing.T) {
	whole := write(t, true)
	for _, size := range []int{1, 511, 512, 4000, len(whole) + 10} {
		var e bundle.Extent
		read, rest := 0, append(bytes.Clone(whole), "more"...)
		for ended := false; !ended; {
			n, whole, err := e.Feed(rest[:min(size, len(rest))])
			require.NoError(t, err)
			read, rest, ended = read+n, rest[n:], whole
		}
		require.Equal(t, len(whole), read)
		require.Equal(t, "more", string(rest))
	}
	var e bundle.Extent
	_, _, err := e.Feed([]byte(strings.Repeat("x", 512)))
	require.Equal(t, fsys.Invalid, fsys.CodeOf(err))
}

// Whatever is opened is refused with a reason, or can be read to its end.
func FuzzOpen(f *testing.F) {
	f.Add(write(f, true))
	whole := write(f, false)
	f.Add(whole)
	f.Add(whole[:len(whole)/2])
	f.Add(whole[:len(whole)-1024])
	f.Add(bytes.Replace(whole, []byte(`"format":1`), []byte(`"format":2`), 1))
	f.Add(bytes.Replace(whole, []byte("hello"), []byte("hullo"), 1))
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := open(data)
		if err != nil {
			if fsys.ReasonOf(err) == "" {
				t.Fatalf("no reason: %v", err)
			}
			return
		}
		for _, part := range b.Parts() {
			last := ""
			for p, err := range b.Records(part) {
				if err != nil || p.Key <= last {
					t.Fatalf("what was found whole is not: %s %v", p.Key, err)
				}
				last = p.Key
			}
		}
	})
}

// FuzzRecords looks behind the check sums: the members are what the fuzzer
// says.
func FuzzRecords(f *testing.F) {
	f.Add("a", []byte("b"), "c", []byte{255})
	f.Fuzz(func(t *testing.T, k1 string, v1 []byte, k2 string, v2 []byte) {
		if k1 == "" || k2 <= k1 || len(k2) > store.MaxKey || len(k1) > store.MaxKey {
			return
		}
		list := []store.Pair{{Key: k1, Value: store.Clone(v1)}, {Key: k2, Value: store.Clone(v2)}}
		var w bytes.Buffer
		require.NoError(t, bundle.Write(&w, bundle.Contents{Parts: []bundle.Part{{Name: "p", Records: pairs(list...)}}}))
		b, err := open(w.Bytes())
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("%q", list), fmt.Sprintf("%q", all(t, b.Records("p"))))
	})
}
