package main

import (
	"context"
	"io"
	"strings"
)

// textOf returns the text that words say, or what in has if they are "-".
func textOf(ctx context.Context, in io.Reader, words []string) (string, error) {
	if len(words) != 1 || words[0] != "-" {
		return strings.Join(words, " "), nil
	}
	b, err := io.ReadAll(input(ctx, in))
	if err == nil && len(b) == 0 {
		err = usagef("nothing came on standard input")
	}
	return string(b), err
}

// input returns a reader of r whose reads end with ctx. A read that was left
// behind ends with the process: nothing can interrupt a read of a terminal.
func input(ctx context.Context, r io.Reader) io.Reader { return &ctxReader{ctx: ctx, r: r} }

type ctxReader struct {
	ctx context.Context
	r   io.Reader
}

func (c *ctxReader) Read(p []byte) (int, error) {
	type result struct {
		b   []byte
		err error
	}
	done := make(chan result, 1)
	go func() {
		b := make([]byte, len(p))
		n, err := c.r.Read(b)
		done <- result{b[:n], err}
	}()
	select {
	case got := <-done:
		return copy(p, got.b), got.err
	case <-c.ctx.Done():
		return 0, context.Cause(c.ctx)
	}
}
