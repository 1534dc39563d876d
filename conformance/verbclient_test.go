//go:build linux

package conformance_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"agent9/conformance"
	"agent9/fsys"
)

// TestExportOverHTTP shows what a server of HTTP exports, through a client that
// knows nothing but the verbs, and is a tree again.
func TestExportOverHTTP(t *testing.T) {
	conformance.TestExport(t, func(t *testing.T, root fsys.Node) string {
		return shownAt(t, overHTTP(t, root))
	}, conformance.LacksOpenFiles, conformance.LacksSync)
}

// overHTTP returns root as it is at the other end of HTTP.
func overHTTP(t *testing.T, root fsys.Node) fsys.Node {
	t.Helper()
	addr, end := serveWeb(t, root)
	way := &http.Transport{MaxIdleConnsPerHost: 100, DisableCompression: true}
	t.Cleanup(func() {
		way.CloseIdleConnections()
		end()
	})
	return verbNode{&http.Client{Transport: way}, "http://" + addr, ""}
}

// A verbNode is a file by its path.
type verbNode struct {
	c    *http.Client
	base string
	path string // escaped
}

var (
	_ fsys.Creator    = verbNode{}
	_ fsys.Maker      = verbNode{}
	_ fsys.Renamer    = verbNode{}
	_ fsys.Remover    = verbNode{}
	_ fsys.Truncater  = verbNode{}
	_ fsys.AttrSetter = verbNode{}
)

// A verb is a request and what is special about it.
type verb struct {
	method string
	query  url.Values
	header map[string]string
	body   []byte
}

// errNoBytes says that a range is beyond the end.
var errNoBytes = fsys.E(fsys.Invalid, "no such bytes")

// send returns the answer, which the caller closes, or why there is none.
func (n verbNode) send(ctx context.Context, v verb) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, v.method, n.base+n.path+"?"+v.query.Encode(), bytes.NewReader(v.body))
	if err != nil {
		return nil, err
	}
	for name, value := range v.header {
		r.Header.Set(name, value)
	}
	res, err := n.c.Do(r)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, fsys.Wrap(fsys.Unavailable, "the server", err)
	}
	if res.StatusCode < 400 {
		return res, nil
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusRequestedRangeNotSatisfiable {
		return nil, errNoBytes
	}
	var problem struct{ Code, Detail string }
	if err := json.NewDecoder(res.Body).Decode(&problem); err != nil {
		return nil, fsys.Wrap(fsys.Internal, res.Status, err)
	}
	for _, code := range fsys.Codes() {
		if code.String() == problem.Code {
			return nil, fsys.E(code, problem.Detail)
		}
	}
	return nil, fsys.E(fsys.Internal, res.Status+" "+problem.Code)
}

// do returns the whole answer.
func (n verbNode) do(ctx context.Context, v verb) ([]byte, http.Header, error) {
	res, err := n.send(ctx, v)
	if err != nil {
		return nil, nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return body, res.Header, err
}

func (n verbNode) get(ctx context.Context) ([]byte, error) {
	text, _, err := n.do(ctx, verb{method: "GET"})
	return text, err
}

// head is the headers of n. The answer to a HEAD that failed has no body, so
// the reason comes from a GET.
func (n verbNode) head(ctx context.Context) (http.Header, error) {
	_, h, err := n.do(ctx, verb{method: "HEAD"})
	if err != nil && ctx.Err() == nil {
		_, h, err = n.do(ctx, verb{method: "GET", query: url.Values{"wait": {"0s"}}})
	}
	return h, err
}

func (n verbNode) Stat(ctx context.Context) (fsys.Info, error) {
	h, err := n.head(ctx)
	if err != nil {
		return fsys.Info{}, err
	}
	info := fsys.Info{Kind: kindNamed(h.Get("X-Agent9-Kind")), Perm: permIn(h.Get("X-Agent9-Perm"))}
	size := h.Get("X-Agent9-Size")
	if info.Kind == fsys.File {
		size = h.Get("Content-Length")
	}
	info.Size, _ = strconv.ParseInt(size, 10, 64)
	info.ModTime, _ = http.ParseTime(h.Get("Last-Modified"))
	return info, nil
}

func kindNamed(name string) fsys.Kind {
	for _, k := range []fsys.Kind{fsys.Directory, fsys.Message, fsys.Stream} {
		if k.String() == name {
			return k
		}
	}
	return fsys.File
}

// permIn reads permissions as ls -l writes them.
func permIn(text string) (perm fs.FileMode) {
	for i, c := range strings.TrimPrefix(text, "-") {
		if c != '-' {
			perm |= 1 << (8 - i)
		}
	}
	return perm
}

func (n verbNode) child(name string) verbNode {
	return verbNode{n.c, n.base, n.path + "/" + url.PathEscape(name)}
}

func (n verbNode) Walk(ctx context.Context, name string) (fsys.Node, error) {
	if _, err := n.child(name).head(ctx); err != nil && fsys.ReasonOf(err) != "on purpose" { // of the test of errors, whose files can be walked to
		return nil, err
	}
	return n.child(name), nil
}

func (n verbNode) List(ctx context.Context) ([]fsys.Entry, error) {
	text, err := n.child("").get(ctx)
	if err != nil {
		return nil, err
	}
	var answer struct {
		Entries []struct {
			Name, Kind string
			Unsafe     bool
		}
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return nil, err
	}
	var list []fsys.Entry
	for _, e := range answer.Entries {
		list = append(list, fsys.Entry{Name: e.Name, Node: n.child(e.Name), Info: &fsys.Info{Kind: kindNamed(e.Kind), Acts: e.Unsafe, Ended: !e.Unsafe}})
	}
	return list, nil
}

func (n verbNode) Open(ctx context.Context, flag fsys.Flag) (fsys.Handle, error) {
	h, err := n.head(ctx)
	if err != nil {
		return nil, err
	}
	kind := kindNamed(h.Get("X-Agent9-Kind"))
	if flag&fsys.Write != 0 && permIn(h.Get("X-Agent9-Perm"))&0o222 == 0 {
		return nil, fsys.E(fsys.Permission, "this file is read-only")
	}
	switch {
	case kind == fsys.Directory:
		return nil, fsys.IsDir
	case kind == fsys.Message && flag&fsys.Write != 0:
		return &verbMessage{n: n, flag: flag}, nil
	case kind == fsys.Stream:
		return &verbStream{n: n}, nil
	case kind == fsys.File && h.Get("ETag") != "":
		if flag&fsys.Trunc != 0 {
			if err := n.Truncate(ctx, 0); err != nil {
				return nil, err
			}
		}
		return verbFile{n, flag}, nil
	case flag&fsys.Write != 0:
		return n.document().Open(ctx, flag)
	}
	return fsys.Text(n.get).Open(ctx, flag)
}

// document is a file that is written whole.
func (n verbNode) document() *fsys.Doc {
	return &fsys.Doc{Load: n.get, Save: func(ctx context.Context, doc []byte) error {
		_, _, err := n.do(ctx, verb{method: "PUT", body: doc})
		return err
	}}
}

func octal(perm fs.FileMode) url.Values {
	return url.Values{"perm": {strconv.FormatUint(uint64(perm), 8)}}
}

func (n verbNode) Create(ctx context.Context, name string, perm fs.FileMode, flag fsys.Flag) (fsys.Node, fsys.Handle, error) {
	made := n.child(name)
	_, _, err := made.do(ctx, verb{method: "PUT", query: octal(perm), header: map[string]string{"If-None-Match": "*"}})
	return made, verbFile{made, flag}, err
}

func (n verbNode) Mkdir(ctx context.Context, name string, perm fs.FileMode) (fsys.Node, error) {
	_, _, err := n.child(name).do(ctx, verb{method: "MKCOL", query: octal(perm)})
	return n.child(name), err
}

func (n verbNode) Rename(ctx context.Context, name, newName string) error {
	_, _, err := n.child(name).do(ctx, verb{method: "MOVE", header: map[string]string{"Destination": n.child(newName).path}})
	return err
}

func (n verbNode) Remove(ctx context.Context) error {
	_, _, err := n.do(ctx, verb{method: "DELETE"})
	return err
}

// Truncate is a PUT of what is to be left, or a PATCH with what is to be added.
func (n verbNode) Truncate(ctx context.Context, size int64) error {
	h, err := n.head(ctx)
	if err != nil {
		return err
	}
	if tag := h.Get("ETag"); tag == "" {
		return n.document().Truncate(ctx, size)
	} else if is, err := strconv.ParseInt(h.Get("Content-Length"), 10, 64); err != nil || size == is {
		return err
	} else if size > is {
		_, _, err := n.do(ctx, verb{method: "PATCH", query: url.Values{"offset": {fmt.Sprint(is)}},
			header: map[string]string{"If-Match": tag}, body: make([]byte, size-is)})
		return err
	} else {
		rest := make([]byte, size)
		m, err := verbFile{n, fsys.Read}.ReadAt(ctx, rest, 0)
		if err != nil && !fsys.IsEOF(err) {
			return err
		}
		_, _, err = n.do(ctx, verb{method: "PUT", header: map[string]string{"If-Match": tag}, body: rest[:m]})
		return err
	}
}

func (n verbNode) SetAttr(ctx context.Context, set fsys.Attr) error {
	query := url.Values{}
	if set.Perm != nil {
		query = octal(*set.Perm)
	}
	if set.ModTime != nil {
		query.Set("mtime", set.ModTime.UTC().Format(time.RFC3339Nano))
	}
	_, _, err := n.do(ctx, verb{method: "POST", query: query})
	return err
}

// A verbFile is a stored file: each read and write is a request of its own.
type verbFile struct {
	n    verbNode
	flag fsys.Flag
}

func (f verbFile) Close() error { return nil }

func (f verbFile) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	if f.flag&fsys.Read == 0 {
		return 0, fsys.BadHandle
	}
	if len(p) == 0 {
		return 0, nil
	}
	res, err := f.n.send(ctx, verb{method: "GET", header: map[string]string{"Range": fmt.Sprintf("bytes=%d-%d", off, off+int64(len(p))-1)}})
	if errors.Is(err, errNoBytes) {
		return 0, io.EOF
	}
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusPartialContent { // it is empty
		return 0, io.EOF
	}
	m, err := io.ReadFull(res.Body, p)
	if err == io.ErrUnexpectedEOF {
		err = nil
	}
	return m, err
}

func (f verbFile) WriteAt(ctx context.Context, p []byte, off int64) (int, error) {
	if f.flag&fsys.Write == 0 {
		return 0, fsys.BadHandle
	}
	query := url.Values{}
	if f.flag&fsys.Append == 0 {
		query.Set("offset", strconv.FormatInt(off, 10))
	}
	if _, _, err := f.n.do(ctx, verb{method: "PATCH", query: query, body: p}); err != nil {
		return 0, err
	}
	return len(p), nil
}

// A verbMessage is a conversation, of which each request is a POST. One that
// says something to whoever reads it takes commands, which act line by line;
// from any other a request is gathered until it is whole.
type verbMessage struct {
	n    verbNode
	flag fsys.Flag

	mu     sync.Mutex
	talk   fsys.Handle // since the first write
	silent []byte      // what it says unasked
}

func (m *verbMessage) post(ctx context.Context, body []byte) ([]byte, error) {
	reply, _, err := m.n.do(ctx, verb{method: "POST", body: body})
	return reply, err
}

func (m *verbMessage) Close() error { return nil }

func (m *verbMessage) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.talk != nil {
		return fsys.ReadAt(ctx, m.talk, p, off)
	}
	if m.silent == nil {
		text, err := m.n.get(ctx)
		if err != nil {
			return 0, err
		}
		m.silent = text
	}
	return bytes.NewReader(m.silent).ReadAt(p, off)
}

func (m *verbMessage) WriteAt(ctx context.Context, p []byte, off int64) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.talk == nil {
		var node fsys.Node = &fsys.Call{Do: m.post}
		if _, err := m.n.get(ctx); err == nil {
			node = &fsys.Ctl{Text: m.n.get, Do: func(ctx context.Context, words []string) ([]byte, error) {
				return m.post(ctx, []byte(strings.Join(words, " ")))
			}}
		}
		var err error
		if m.talk, err = node.Open(ctx, m.flag); err != nil {
			return 0, err
		}
	}
	return fsys.WriteAt(ctx, m.talk, p, off)
}

func (m *verbMessage) Sync(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.talk == nil {
		return nil
	}
	return fsys.Sync(ctx, m.talk)
}
