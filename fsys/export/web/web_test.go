package web_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"agent9/fsys"
	"agent9/fsys/export/web"
	"agent9/store/files"
	"agent9/store/mem"
)

const token = "a9_test"

// patience is how long anything may take that should be quick.
const patience = 90 * time.Second

// attach shows root to who has the token.
func attach(root fsys.Node) func(context.Context, web.Peer, string) (web.Grant, error) {
	return func(_ context.Context, _ web.Peer, bearer string) (web.Grant, error) {
		if bearer != token {
			return web.Grant{}, fsys.Permission
		}
		return web.Grant{Root: root, Caller: "alice"}, nil
	}
}

// serve serves with s until the test ends and returns the URL.
func serve(t testing.TB, s *web.Server) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return "http://" + l.Addr().String()
}

func serveTree(t testing.TB, root fsys.Node) string {
	return serve(t, &web.Server{Attach: attach(root)})
}

// request returns a request with the token. Each header is "Name: value".
func request(t testing.TB, method, url, body string, headers ...string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
		if name == "Host" {
			r.Host = value
		}
	}
	return r
}

func do(t testing.TB, r *http.Request) (*http.Response, string) {
	t.Helper()
	res, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(body)
}

func stored(t testing.TB) fsys.Node {
	t.Helper()
	tree, err := files.New(t.Context(), mem.New(), files.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return tree.Root()
}

func echo() fsys.Node {
	return &fsys.Call{Do: func(ctx context.Context, req []byte) ([]byte, error) {
		if strings.Contains(string(req), "refuse") {
			return nil, fsys.E(fsys.Exhausted, "no money")
		}
		return fmt.Appendf(nil, "%s said %s\n", fsys.CallerOf(ctx), req), nil
	}}
}

// office is a tree with one of each kind of file.
func office(t testing.TB) fsys.Node {
	log := new(fsys.Memory)
	log.Append([]byte("one\ntwo\nthree\n"))
	tape := fsys.NewTape(log)
	tape.End()
	quiet := new(fsys.Memory)
	quiet.Append([]byte("so far\n"))
	return fsys.NewTable(
		fsys.Entry{Name: "README", Node: fsys.Const("hello\nworld\n")},
		fsys.Entry{Name: "bytes", Node: fsys.Const("\xff\x00")},
		fsys.Entry{Name: "page", Node: fsys.Const("<script>alert(1)</script>")},
		fsys.Entry{Name: "new", Node: echo()},
		fsys.Entry{Name: "ctl", Node: &fsys.Ctl{
			Do: func(_ context.Context, words []string) ([]byte, error) {
				if words[0] != "go" {
					return nil, fsys.E(fsys.Invalid, "the only command is go")
				}
				return nil, nil
			},
			Text: func(context.Context) ([]byte, error) { return []byte("go\n"), nil },
		}},
		fsys.Entry{Name: "goals", Node: stored(t)},
		fsys.Entry{Name: "log", Node: tape},
		fsys.Entry{Name: "quiet", Node: fsys.NewTape(quiet)},
		fsys.Entry{Name: "agents", Node: fsys.NewTable(fsys.Entry{Name: "alice", Node: fsys.NewTable(
			fsys.Entry{Name: "inbox", Node: fsys.NewTable(fsys.Entry{Name: "new", Node: echo()})},
			fsys.Entry{Name: "ctl", Node: &fsys.Ctl{
				Do:   func(_ context.Context, words []string) ([]byte, error) { return fmt.Appendln(nil, words), nil },
				Text: func(context.Context) ([]byte, error) { return nil, nil },
			}},
		)})},
	)
}

// TestVerbs goes through what each verb does, in order, on one tree.
func TestVerbs(t *testing.T) {
	url := serveTree(t, office(t))
	for _, c := range []struct {
		method, path, body, header string
		status                     int
		want                       string // of the body; the code of a problem
	}{
		{"GET", "/README", "", "", 200, "hello\nworld\n"},
		{"GET", "/README", "", "Range: bytes=6-8", 206, "wor"},
		{"GET", "/README", "", "Range: bytes=50-", 416, "invalid"},
		{"GET", "/README", "", "Range: bytes=8-6", 416, "invalid"},
		{"GET", "/README", "", "Range: bytes=" + strings.Repeat("0-0,", 20) + "0-0", 200, "hello\nworld\n"},
		{"GET", "/README", "", "Range: lines=1-2", 416, "invalid"},
		{"HEAD", "/README", "", "", 200, ""},
		{"GET", "/bytes", "", "", 200, "\xff\x00"},
		{"GET", "/README/", "", "", 409, "not-directory"},
		{"GET", "/README/x", "", "", 409, "not-directory"},
		{"GET", "/nothing", "", "", 404, "not-found"},
		{"GET", "/goals/", "", "", 200, `{"entries":[]}` + "\n"},
		{"GET", "/goals", "", "", 200, `{"entries":[]}` + "\n"},
		{"PUT", "/goals/a%20b", "one", "", 201, ""},
		{"GET", "/goals/a%20b", "", "", 200, "one"},
		{"PUT", "/goals/a%20b", "two", "", 204, ""},
		{"PUT", "/goals/a%20b", "three", "If-None-Match: *", 412, "exists"},
		{"PUT", "/goals/c", "three", "If-Match: *", 412, "busy"},
		{"PATCH", "/goals/a%20b", "+", "", 204, ""},
		{"PATCH", "/goals/a%20b?offset=1", "WW", "", 204, ""},
		{"PATCH", "/goals/a%20b?offset=x", "WW", "", 400, "invalid"},
		{"PATCH", "/goals/a%20b?ofset=1", "WW", "", 400, "invalid"},
		{"GET", "/goals/a%20b?wiat=0s", "", "", 400, "invalid"},
		{"GET", "/goals/a%20b", "", "", 200, "tWW+"},
		{"PUT", "/goals/empty", "", "", 201, ""},
		{"GET", "/goals/empty", "", "", 200, ""},
		{"DELETE", "/goals/empty", "", "", 204, ""},
		{"PUT", "/goals/mine?perm=600", "x", "", 201, ""},
		{"PUT", "/goals/mine2?perm=1777", "x", "", 400, "invalid"},
		{"PUT", "/goals/mine2?perm=rw", "x", "", 400, "invalid"},
		{"POST", "/goals/mine?perm=640&mtime=2001-02-03T04:05:06Z", "", "", 204, ""},
		{"POST", "/goals/mine?perm=640", "body", "", 415, "invalid"},
		{"POST", "/goals/mine?perm=", "", "", 400, "invalid"},
		{"POST", "/goals/mine?mtime=yesterday", "", "", 400, "invalid"},
		{"POST", "/goals/nothing?perm=640", "", "", 404, "not-found"},
		{"POST", "/README?perm=640", "", "", 405, "unsupported"},
		{"POST", "/goals/mine?perm=600", "", "If-Match: \"x\"", 412, "busy"},
		{"POST", "/goals/mine?rename=yours", "", "If-Match: \"x\"", 412, "busy"},
		{"GET", "/goals/mine", "", "If-Match: \"x\"", 412, "busy"},
		{"DELETE", "/goals/mine", "", "", 204, ""},
		{"MKCOL", "/goals/d", "", "", 201, ""},
		{"MKCOL", "/goals/d", "", "", 409, "exists"},
		{"POST", "/goals/d/e?mkdir", "", "", 201, ""},
		{"PUT", "/goals/d/", "", "", 409, "is-directory"},
		{"DELETE", "/goals/d", "", "", 409, "not-empty"},
		{"MOVE", "/goals/d", "", "Destination: " + url + "/goals/f", 204, ""},
		{"MOVE", "/goals/f", "", "Destination: /f", 409, "cross-directory"},
		{"MOVE", "/goals/f", "", "", 400, "invalid"},
		{"POST", "/goals/f/e?rename=g", "", "", 204, ""},
		{"POST", "/goals/f/g?rename=a/b", "", "", 400, "invalid"},
		{"DELETE", "/goals/f/g", "", "", 204, ""},
		{"DELETE", "/goals/f", "", "", 204, ""},
		{"DELETE", "/goals/f", "", "", 404, "not-found"},
		{"DELETE", "/README", "", "", 403, "forbidden"},
		{"PUT", "/README", "x", "", 403, "forbidden"},
		{"PUT", "/x", "x", "", 403, "forbidden"},
		{"POST", "/new", `{"a":1}`, "", 200, "alice said {\"a\":1}\n"},
		{"POST", "/new", "plain text", "", 200, "alice said plain text\n"},
		{"POST", "/new", "refuse", "", 402, "budget"},
		{"POST", "/new", "", "", 400, "invalid"},
		{"POST", "/README", "x", "", 405, "unsupported"},
		{"PUT", "/new", "refuse", "", 402, "budget"},
		{"PUT", "/new", "text", "", 204, ""},
		{"GET", "/new", "", "", 409, "busy"},
		{"GET", "/ctl", "", "", 200, "go\n"},
		{"POST", "/ctl", "go", "", 204, ""},
		{"POST", "/ctl", "fly", "", 400, "invalid"},
		{"GET", "/log", "", "", 200, "one\ntwo\nthree\n"},
		{"GET", "/log?offset=4", "", "", 200, "two\nthree\n"},
		{"GET", "/log", "", "Range: bytes=4-6", 206, "two"},
		{"GET", "/quiet", "", "Range: bytes=3-", 206, "far\n"},
		{"GET", "/quiet?wait=0s", "", "", 200, "so far\n"},
		{"GET", "/quiet?wait=1ms", "", "", 200, "so far\n"},
		{"GET", "/quiet?wait=soon", "", "", 400, "invalid"},
		{"GET", "/quiet?watch=1&wait=1ms", "", "", 200, "id: 7\ndata: so far\n\n"},
		{"GET", "/README?watch=1", "", "", 405, "unsupported"},
		{"GET", "/quiet?watch=1&offset=99", "", "", 416, "invalid"},
		{"POST", "/agents/alice/tick", "", "", 200, "[tick]\n"},
		{"POST", "/agents/alice/tick", "x", "", 400, "invalid"},
		{"POST", "/agents/alice/send", "hi", "", 200, "alice said hi\n"},
		{"POST", "/agents/bob/send", "hi", "", 404, "not-found"},
		{"OPTIONS", "/README", "", "", 204, ""},
		{"BREW", "/README", "", "", 405, "unsupported"},
	} {
		var headers []string
		if c.header != "" {
			headers = []string{c.header}
		}
		res, got := do(t, request(t, c.method, url+c.path, c.body, headers...))
		if res.Header.Get("Content-Type") == "application/problem+json" {
			var p struct {
				Status int
				Code   string
			}
			if err := json.Unmarshal([]byte(got), &p); err != nil || p.Status != res.StatusCode {
				t.Errorf("%s %s: the problem is %s", c.method, c.path, got)
			}
			got = p.Code
		}
		if res.StatusCode != c.status || got != c.want {
			t.Errorf("%s %s %s: %d %q, want %d %q", c.method, c.path, c.header, res.StatusCode, got, c.status, c.want)
		}
	}
}

func TestListing(t *testing.T) {
	url := serveTree(t, office(t))
	do(t, request(t, "PUT", url+"/goals/g", "text"))
	_, body := do(t, request(t, "GET", url+"/goals/", ""))
	var list struct {
		Entries []struct {
			Name, Kind, Perm, Mtime, Etag string
			Size                          int64
		}
	}
	if err := json.Unmarshal([]byte(body), &list); err != nil || len(list.Entries) != 1 {
		t.Fatalf("%s: %v", body, err)
	}
	e := list.Entries[0]
	if _, err := time.Parse(fsys.TimeFormat, e.Mtime); e.Name != "g" || e.Kind != "file" || e.Size != 4 || e.Perm != "-rw-r--r--" || err != nil {
		t.Errorf("got %+v", e)
	}
	res, _ := do(t, request(t, "HEAD", url+"/goals/g", ""))
	if h := res.Header; h.Get("Etag") != e.Etag || h.Get("Content-Length") != "4" || h.Get("Last-Modified") == "" || h.Get("X-Agent9-Kind") != "file" {
		t.Errorf("HEAD: %v, want the ETag %s", h, e.Etag)
	}
	res, body = do(t, request(t, "GET", url+"/goals/g", "", "If-None-Match: "+e.Etag))
	if res.StatusCode != 304 || body != "" {
		t.Errorf("If-None-Match: %d %q", res.StatusCode, body)
	}
}

// What an agent or a model wrote does nothing in a browser.
func TestNothingActsInABrowser(t *testing.T) {
	url := serveTree(t, office(t))
	res, _ := do(t, request(t, "GET", url+"/page", ""))
	h := res.Header
	if h.Get("Content-Type") != "text/plain; charset=utf-8" || h.Get("X-Content-Type-Options") != "nosniff" || !strings.Contains(h.Get("Content-Security-Policy"), "sandbox") {
		t.Errorf("headers: %v", h)
	}
	if res, _ := do(t, request(t, "GET", url+"/bytes", "")); res.Header.Get("Content-Type") != "application/octet-stream" {
		t.Errorf("bytes are %s", res.Header.Get("Content-Type"))
	}
}

// Who has no token learns nothing: whatever is asked, the answer is the same.
func TestNothingWithoutAToken(t *testing.T) {
	url := serve(t, &web.Server{Attach: attach(office(t)), Public: map[string]http.Handler{
		"/healthz": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok\n") }),
	}})
	var first string
	for _, method := range []string{"GET", "PUT", "POST", "DELETE", "MKCOL", "OPTIONS", "BREW"} {
		for _, path := range []string{"/", "/README", "/agents/alice/inbox/new", "/agents/bob/inbox/new", "/nothing", "/a//b", "/%2e%2e/x", "/healthz/"} {
			for _, auth := range []string{"", "Bearer ", "Bearer a9_other", "Basic " + token} {
				r := request(t, method, url+path, "")
				r.Header.Set("Authorization", auth)
				res, body := do(t, r)
				res.Header.Del("Date")
				got := fmt.Sprint(res.StatusCode, res.Header, body)
				if first == "" {
					first = got
				}
				if res.StatusCode != 401 || got != first {
					t.Fatalf("%s %s: %s\nwant %s", method, path, got, first)
				}
			}
		}
	}
	r := request(t, "GET", url+"/healthz", "")
	r.Header.Del("Authorization")
	if res, body := do(t, r); res.StatusCode != 200 || body != "ok\n" {
		t.Errorf("/healthz: %d %s", res.StatusCode, body)
	}
}

func TestPathsAreTakenAsTheyAre(t *testing.T) {
	url := serveTree(t, office(t))
	for _, path := range []string{"//README", "/agents//alice", "/./README", "/agents/../README", "/%2e%2e/README", "/agents/%2e%2e/README", "/agents%2falice", "/README%00", "/%ff", "/README//", "/" + strings.Repeat("x", 256)} {
		res, body := do(t, request(t, "GET", url+path, ""))
		if res.StatusCode != 400 || res.Header.Get("Location") != "" {
			t.Errorf("%s: %d %s", path, res.StatusCode, body)
		}
	}
}

// Another site's page cannot send anything, nor have its name lead here.
func TestOtherOrigins(t *testing.T) {
	const friend = "https://friend.example"
	url := serve(t, &web.Server{Attach: attach(office(t)), Origins: []string{friend}, Hosts: []string{"agents.test"}})
	host := strings.TrimPrefix(url, "http://")
	for _, c := range []struct {
		headers []string
		status  int
		allowed string
	}{
		{[]string{"Host: evil.example"}, 421, ""},
		{[]string{"Host: localhost.evil.example:80"}, 421, ""},
		{[]string{"Host: localhost:80"}, 200, ""},
		{[]string{"Host: [::1]:80"}, 200, ""},
		{[]string{"Host: agents.test"}, 200, ""},
		{[]string{"Origin: https://evil.example"}, 403, ""},
		{[]string{"Origin: null"}, 403, ""},
		{[]string{"Origin: http://" + host}, 200, ""},
		{[]string{"Origin: " + friend}, 200, friend},
	} {
		res, body := do(t, request(t, "GET", url+"/README", "", c.headers...))
		if res.StatusCode != c.status || res.Header.Get("Access-Control-Allow-Origin") != c.allowed {
			t.Errorf("%v: %d %v %s", c.headers, res.StatusCode, res.Header, body)
		}
	}
	res, _ := do(t, request(t, "OPTIONS", url+"/README", "", "Origin: "+friend, "Access-Control-Request-Method: PUT", "Access-Control-Request-Headers: authorization"))
	if res.StatusCode != 204 || res.Header.Get("Access-Control-Allow-Headers") != "authorization" || !strings.Contains(res.Header.Get("Access-Control-Allow-Methods"), "PUT") {
		t.Errorf("preflight: %d %v", res.StatusCode, res.Header)
	}
}

// Of many who have read the same version, one may write.
func TestIfMatchLetsOneWin(t *testing.T) {
	url := serveTree(t, stored(t))
	res, _ := do(t, request(t, "PUT", url+"/f", "0"))
	tag := res.Header.Get("Etag")
	statuses := make(chan int)
	const many = 20
	for i := range many {
		r := request(t, "PUT", url+"/f", fmt.Sprint(i), "If-Match: "+tag)
		go func() {
			res, err := http.DefaultTransport.RoundTrip(r)
			if err != nil {
				statuses <- 0
				return
			}
			res.Body.Close()
			statuses <- res.StatusCode
		}()
	}
	got := map[int]int{}
	for range many {
		got[<-statuses]++
	}
	if got[204] != 1 || got[412] != many-1 {
		t.Errorf("statuses: %v", got)
	}
}
