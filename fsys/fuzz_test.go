package fsys_test

import (
	"bytes"
	"context"
	"testing"

	"agent9/fsys"
)

// However a request is cut into writes, the same is done.
func FuzzCall(f *testing.F) {
	for _, s := range []string{"hello\n", `{"a":"}"} `, ` [1,{"b":"\\\""}]` + "\n" + `{}`, `{"a"`, "\n \n", `{} x`, "a{}", "\"[\"", `{}{}{}`} {
		f.Add([]byte(s), byte(1))
		f.Add([]byte(s), byte(3))
	}
	f.Fuzz(func(t *testing.T, in []byte, step byte) {
		if len(in) > 1000 {
			return
		}
		whole, werr := converse(t, in, len(in))
		for _, n := range []int{1, max(1, int(step))} {
			pieces, perr := converse(t, in, n)
			// A mistake behind a value in the same write makes nothing of it act;
			// in a later write it comes too late for that.
			if werr == nil && (perr != nil || !bytes.Equal(whole, pieces)) {
				t.Fatalf("%q did %q; in pieces of %d %q, %v", in, whole, n, pieces, perr)
			}
			if !bytes.HasPrefix(pieces, whole) {
				t.Fatalf("%q did %q, %v; in pieces of %d %q", in, whole, werr, n, pieces)
			}
		}
	})
}

// converse returns what acted, each between angle brackets.
func converse(t *testing.T, in []byte, step int) (acted []byte, failed error) {
	ctx := context.Background()
	c := &fsys.Call{Do: func(_ context.Context, req []byte) ([]byte, error) {
		if len(req) == 0 {
			t.Errorf("%q made an empty request", in)
		}
		acted = append(append(append(acted, '<'), req...), '>')
		return nil, nil
	}}
	h, err := c.Open(ctx, fsys.Read|fsys.Write)
	if err != nil {
		t.Fatal(err)
	}
	for rest := in; len(rest) > 0 && failed == nil; {
		n := min(step, len(rest))
		_, failed = fsys.WriteAt(ctx, h, rest[:n], 0)
		rest = rest[n:]
	}
	if failed == nil {
		failed = fsys.Sync(ctx, h)
	}
	h.Close()
	return acted, failed
}
