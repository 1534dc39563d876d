package mcp

import (
	"context"
	"encoding/base64"
	"fmt"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"agent9/fsys"
	"agent9/fsys/share"
)

type writeArgs struct {
	at
	Text   string `json:"text,omitempty" jsonschema:"what to write"`
	Base64 string `json:"base64,omitempty" jsonschema:"what to write, in base64, instead of text"`
	Append bool   `json:"append,omitempty" jsonschema:"add to the end instead of replacing all"`
}

// done is the answer of what only changes.
type done struct {
	Path  string `json:"path"`
	Bytes int    `json:"bytes,omitempty"`
	did   string
}

func (d done) shown() []sdk.Content { return []sdk.Content{text(d.did + " " + d.Path)} }

func (t *tree) write(ctx context.Context, in writeArgs) (done, error) {
	d := done{Path: clean(in.Path)}
	body, err := in.body()
	if err != nil {
		return d, err
	}
	dir, name, err := t.parent(ctx, in.Path)
	if err != nil {
		return d, err
	}
	if err := writable(ctx, dir, name); err != nil {
		return d, err
	}
	flag, how := fsys.Write|fsys.Trunc, "written to"
	if in.Append {
		flag, how = fsys.Write|fsys.Append, "added to"
	}
	node, h, err := fsys.OpenCreate(ctx, dir, name, 0o644, flag)
	if err != nil {
		return d, err
	}
	off := int64(0)
	if in.Append {
		if info, err := node.Stat(ctx); err == nil {
			off = info.Size
		}
	}
	if err := writeAll(ctx, h, body, off); err != nil {
		h.Close()
		return d, err
	}
	d.Bytes, d.did = len(body), fmt.Sprintf("%d bytes %s", len(body), how)
	return d, fsys.Finish(ctx, h)
}

func (in writeArgs) body() ([]byte, error) {
	switch {
	case in.Base64 == "":
		return []byte(in.Text), nil
	case in.Text != "":
		return nil, fsys.E(fsys.Invalid, "give text or base64, not both")
	}
	b, err := base64.StdEncoding.DecodeString(in.Base64)
	return b, fsys.Wrap(fsys.Invalid, "base64", err)
}

// writable refuses what another tool is for.
func writable(ctx context.Context, dir fsys.Node, name string) error {
	node, err := fsys.Walk(ctx, dir, name)
	if err != nil {
		return nil // it is made, or that fails
	}
	info, err := node.Stat(ctx)
	switch {
	case err != nil:
		return err
	case info.Kind == fsys.Message:
		return fsys.E(fsys.Unsupported, "this is a message file: use call")
	case info.Kind == fsys.Directory:
		return fsys.E(fsys.IsDir, "this is a directory")
	}
	return nil
}

func writeAll(ctx context.Context, h fsys.Handle, p []byte, off int64) error {
	for len(p) > 0 {
		n, err := fsys.WriteAt(ctx, h, p, off)
		if err != nil {
			return err
		}
		p, off = p[n:], off+int64(n)
	}
	return nil
}

type callArgs struct {
	at
	Request string  `json:"request" jsonschema:"what to send: plain text, or JSON as text"`
	Seconds float64 `json:"seconds,omitempty" jsonschema:"longest time to wait for the reply; 120 unless given, at most 300"`
}

// callSeconds is how long a reply is usually waited for.
const callSeconds = 120

type reply struct {
	Path     string `json:"path"`
	Reply    string `json:"reply"`
	Encoding string `json:"encoding" jsonschema:"of reply: utf-8 or base64"`
	Cut      bool   `json:"cut,omitempty" jsonschema:"the reply was longer and its rest is lost"`
}

func (r reply) shown() []sdk.Content {
	shown := []sdk.Content{text(r.Reply)}
	switch {
	case r.Cut:
		shown = append(shown, text(fmt.Sprintf("[the reply was cut after %d bytes; its rest is lost]", mostBytes)))
	case r.Reply == "":
		shown = append(shown, text("[done; there is no reply]"))
	}
	return shown
}

func (t *tree) call(ctx context.Context, in callArgs) (reply, error) {
	r := reply{Path: clean(in.Path)}
	long, err := patience(in.Seconds, callSeconds)
	if err != nil {
		return r, err
	}
	node, info, err := t.look(ctx, in.Path)
	switch {
	case err != nil:
		return r, err
	case info.Kind != fsys.Message:
		return r, fsys.E(fsys.Unsupported, "only a message file can be called, and this is a "+info.Kind.String())
	case in.Request == "":
		return r, fsys.E(fsys.Invalid, "the request is empty")
	}
	ctx, cancel := context.WithTimeoutCause(ctx, long, fsys.E(fsys.Timeout, "no reply came in time"))
	defer cancel()
	b, err := t.converse(ctx, node, []byte(in.Request))
	if err != nil {
		if ctx.Err() != nil && fsys.CodeOf(err) == fsys.Canceled {
			err = context.Cause(ctx)
		}
		return r, err
	}
	if len(b) > mostBytes {
		b, r.Cut = b[:wholeRunes(b[:mostBytes])], true
	}
	r.Reply, r.Encoding = encoded(b)
	return r, nil
}

// converse writes req and returns the reply, or a little more of it than is
// shown.
func (t *tree) converse(ctx context.Context, node fsys.Node, req []byte) ([]byte, error) {
	h, err := node.Open(ctx, fsys.Read|fsys.Write)
	if err != nil {
		return nil, err
	}
	more, err := t.part.More(ctx, fsys.Message, h, len(req))
	if err == nil {
		defer more()
		err = writeAll(fsys.OneRequest(ctx), h, req, 0)
	}
	if err != nil {
		h.Close()
		return nil, err
	}
	var b []byte
	part := make([]byte, 32<<10)
	for len(b) <= mostBytes {
		n, err := fsys.ReadAt(ctx, h, part, int64(len(b)))
		b = append(b, part[:n]...)
		t.part.Charge(share.Data, read*int64(n)) // not refused: the request has acted
		if fsys.IsEOF(err) || err == nil && n == 0 {
			break
		}
		if err != nil {
			h.Close()
			return nil, err
		}
	}
	return b, fsys.Finish(ctx, h)
}

func (t *tree) mkdir(ctx context.Context, in at) (done, error) {
	d := done{Path: clean(in.Path), did: "made"}
	dir, name, err := t.parent(ctx, in.Path)
	if err != nil {
		return d, err
	}
	_, err = fsys.Mkdir(ctx, dir, name, 0o755)
	return d, err
}

func (t *tree) remove(ctx context.Context, in at) (done, error) {
	d := done{Path: clean(in.Path), did: "removed"}
	dir, name, err := t.parent(ctx, in.Path)
	if err != nil {
		return d, err
	}
	node, err := fsys.Walk(ctx, dir, name)
	if err != nil {
		return d, err
	}
	return d, fsys.Remove(ctx, node)
}

type renameArgs struct {
	at
	Name string `json:"name" jsonschema:"the new name, without a directory"`
}

func (t *tree) rename(ctx context.Context, in renameArgs) (done, error) {
	d := done{Path: clean(in.Path), did: "renamed to " + in.Name + ":"}
	dir, name, err := t.parent(ctx, in.Path)
	if err != nil {
		return d, err
	}
	return d, fsys.Rename(ctx, dir, name, in.Name)
}
