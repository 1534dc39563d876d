package web_test

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"agent9/conformance/strict"
	"agent9/fsys"
	"agent9/fsys/export/web"
)

// A request of any path, query and headers has an answer, which is not that
// the server failed, and what it says of the length of a part is so.
func FuzzHTTP(f *testing.F) {
	for _, s := range []struct{ method, target, header, body string }{
		{"GET", "/README", "Range: bytes=6-8", ""}, {"GET", "/README", "Range: bytes=0-0,2-3,-1", ""}, {"GET", "/README", "Range: bytes=-0", ""},
		{"GET", "/README?offset=3&wait=1ms", "", ""}, {"GET", "/goals/../README", "", ""}, {"GET", "/goals%2f..%2fREADME", "", ""}, {"GET", "//", "", ""},
		{"GET", "/%00", "", ""}, {"PUT", "/goals/a", "If-Match: \"1\"", "x"}, {"PATCH", "/goals/a?offset=-1", "", "x"}, {"PATCH", "/goals/a?offset=99999999999", "", "x"},
		{"MOVE", "/goals/a", "Destination: /goals/%2e%2e", ""}, {"POST", "/ctl", "", "go"}, {"POST", "/new", "", `{"a":1}}`}, {"DELETE", "/goals/", "", ""},
		{"GET", "/log?watch=1", "Last-Event-ID: 4", ""}, {"GET", "/log", "Accept: text/event-stream;q=0", ""}, {"MKCOL", "/goals/\xff", "", ""}, {"OPTIONS", "*", "", ""},
		{"GET", "http://other/README", "", ""}, {"GET", "/README", "If-None-Match: W/\"x\",*", ""}, {"GET", "/goals?mkdir&rename=x", "Upgrade: websocket", ""},
	} {
		f.Add(s.method, s.target, s.header, []byte(s.body))
	}
	log := new(fsys.Memory)
	log.Append([]byte("one\ntwo\nthree"))
	tape := fsys.NewTape(log)
	tape.End()
	url := serve(f, &web.Server{Attach: attach(fsys.NewTable(
		fsys.Entry{Name: "README", Node: fsys.Const("hello\nworld\n")},
		fsys.Entry{Name: "new", Node: echo()},
		fsys.Entry{Name: "goals", Node: stored(f)},
		fsys.Entry{Name: "log", Node: tape},
	))})
	addr := strings.TrimPrefix(url, "http://")
	f.Fuzz(func(t *testing.T, method, target, header string, body []byte) {
		if strings.ContainsAny(method+target, " \r\n") || strings.ContainsAny(header, "\r\n") || method == "" || target == "" || len(target) > 2000 || len(body) > 1<<16 {
			return
		}
		headers := []string{"Authorization: Bearer " + token}
		if header != "" {
			headers = append(headers, header)
		}
		r, got := strict.HTTP(t, addr, method, target, headers, body)
		if r == nil {
			return
		}
		if kind := r.Header.Get("Content-Type"); strings.HasSuffix(kind, "json") && method != http.MethodHead && !json.Valid(got) {
			t.Fatalf("%s %q: %s %q", method, target, kind, got)
		}
		if n, err := strconv.Atoi(r.Header.Get("Content-Length")); err == nil && n != len(got) && method != http.MethodHead && r.StatusCode != http.StatusNotModified {
			t.Fatalf("%s %q: %d bytes of %d", method, target, len(got), n)
		}
		if r.StatusCode == http.StatusOK && strings.HasPrefix(target, "/README?") && r.Header.Get("Content-Type") != "application/json" && !strings.HasSuffix("hello\nworld\n", string(got)) && method == http.MethodGet && !strings.Contains(r.Header.Get("Content-Type"), "event") {
			t.Fatalf("%s %q: %q", method, target, got)
		}
	})
}
