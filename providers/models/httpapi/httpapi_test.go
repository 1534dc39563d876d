package httpapi

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"agent9/fsys"
	"agent9/providers/models"
)

func TestRetryAfter(t *testing.T) {
	a := &API{}
	for says, want := range map[string]time.Duration{"": 0, "7": 7 * time.Second, "0.5": time.Second / 2, "-1": 0, "1e300": time.Hour, "x": 0, "Mon, 02 Jan 2006 15:04:05 GMT": 0, "NaN": 0} {
		err := a.Refused(429, http.Header{"Retry-After": {says}}, nil)
		if got := models.RetryAfter(err); got != want || fsys.CodeOf(err) != fsys.Busy {
			t.Errorf("%q: got %v of %v, want %v", says, got, err, want)
		}
	}
	at := time.Now().Add(time.Minute).UTC().Format(http.TimeFormat)
	if got := models.RetryAfter(a.Refused(503, http.Header{"Retry-After": {at}}, nil)); got < 50*time.Second || got > time.Minute {
		t.Errorf("%s is %v from now", at, got)
	}
}

func TestFinal(t *testing.T) {
	for status, want := range map[int]bool{401: true, 402: true, 403: true, 400: false, 404: false, 408: false, 429: false, 500: false, 503: false} {
		if got := models.Final((&API{}).Refused(status, nil, nil)); got != want {
			t.Errorf("%d: got %v", status, got)
		}
	}
}

func TestMessage(t *testing.T) {
	for body, want := range map[string]string{
		`{"error":{"message":"a\nb"}}`:                        "a b",
		`{"type":"error","error":{"type":"x","message":"a"}}`: "a",
		`{"error":"a"}`:                         "a",
		`{"detail":"a"}`:                        "a",
		`{"message":"a"}`:                       "a",
		`{"errors":[{"code":1,"message":"a"}]}`: "a",
		`{"errors":"a"}`:                        `{"errors":"a"}`,
		`a`:                                     "a",
		`<html>`:                                "",
		``:                                      "",
	} {
		if got := (&API{}).Message([]byte(body)); got != want {
			t.Errorf("%s: got %q, want %q", body, got, want)
		}
	}
}

// What a server repeats is cut, and not in the middle of the key; JSON may have
// written that in another way.
func TestErrorsHaveNoPartOfTheKey(t *testing.T) {
	a := &API{Key: "k-0123456789/abcdefghij"}
	for before := range 30 {
		body := strings.Repeat("x", 1000-before) + a.Key
		if got := a.Message([]byte(body)); strings.Contains(got, "k-") {
			t.Errorf("%d before the cut: …%s", before, got[len(got)-40:])
		}
	}
	if got, want := a.Message([]byte(`{"error":"no k-0123456789\/abcdefghij"}`)), "no [secret]"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestCodeOfItsOwn(t *testing.T) {
	a := &API{Key: "k-12345", Code: func(status int, body []byte) fsys.Code {
		if string(body) == "no k-12345" {
			return fsys.NotExist
		}
		return fsys.Internal
	}}
	if err := a.Refused(400, nil, []byte("no k-12345")); fsys.CodeOf(err) != fsys.NotExist || fsys.ReasonOf(err) != "the server says: no [secret]" {
		t.Errorf("got %v", err)
	}
	if err := a.Refused(400, nil, []byte("other")); fsys.CodeOf(err) != fsys.Invalid {
		t.Errorf("got %v", err)
	}
}

func TestBase(t *testing.T) {
	for raw, want := range map[string]string{"http://x": "http://x/v1", "http://x/": "http://x/v1", "https://x/a/": "https://x/a"} {
		if u, err := Base(raw, "/v1", "d", "http://e"); err != nil || u.String() != want {
			t.Errorf("%s: got %v, %v, want %s", raw, u, err, want)
		}
	}
}

func TestEmbeddings(t *testing.T) {
	vectors := []json.RawMessage{json.RawMessage(`[1.0,-0.5]`)}
	for format, want := range map[string]string{
		``:                           `[1.0,-0.5]`,
		`,"encoding_format":"float"`: `[1.0,-0.5]`,
		// 1 and -0.5 as IEEE 754 has them: 00 00 80 3f 00 00 00 bf.
		`,"encoding_format":"base64"`: `"AACAPwAAAL8="`,
	} {
		b, err := models.ParseBody([]byte(`{"model":"m","input":"x"` + format + `}`))
		if err != nil {
			t.Fatal(err)
		}
		req, err := models.ParseRequest("", b)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Embeddings(req, vectors, models.Usage{Input: 3})
		if full := `{"object":"list","data":[{"object":"embedding","index":0,"embedding":` + want + `}],"model":"m","usage":{"prompt_tokens":3,"total_tokens":3}}`; err != nil || string(got) != full {
			t.Errorf("got  %s, %v\nwant %s", got, err, full)
		}
	}
}

// A key is sent to nobody but the server that it is for.
func TestRedirects(t *testing.T) {
	asked := make(chan string, 2)
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { asked <- r.URL.Path }))
	defer elsewhere.Close()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/away":
			http.Redirect(w, r, elsewhere.URL+"/x", http.StatusTemporaryRedirect)
		case "/round":
			http.Redirect(w, r, "/round", http.StatusTemporaryRedirect)
		case "/here":
			http.Redirect(w, r, "/there", http.StatusTemporaryRedirect)
		}
	}))
	defer server.Close()
	a := &API{Target: server.URL, Key: "k", Client: Client()}
	for path, want := range map[string]string{
		"/away":  "the server sends requests on to " + elsewhere.URL + "; if that is right, it is the address to use",
		"/round": "the server sends requests on without an end",
		"/here":  "",
	} {
		res, err := a.Get(t.Context(), path)
		if err == nil {
			res.Body.Close()
		}
		if fsys.ReasonOf(err) != want || err != nil && fsys.CodeOf(err) != fsys.Unavailable {
			t.Errorf("%s: got %v, want %s", path, err, want)
		}
	}
	if len(asked) > 0 {
		t.Errorf("another server was asked for %s", <-asked)
	}
}

// What may cost money is sent once, to the address that was configured, and a
// redirect has used nothing.
func TestPaidRequestsAreNotRedirected(t *testing.T) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		var requests atomic.Int32
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			requests.Add(1)
			if r.URL.Path == "/old" {
				http.Redirect(w, r, "/v2/new?key=secret", status)
			}
		}))
		defer server.Close()
		_, err := (&API{Target: server.URL, Key: "k", Client: Client()}).Post(t.Context(), "/old", []byte("{}"))
		want := "the server redirects to " + server.URL + "/v2/new, and a request that may cost money is sent only once; configure the address that answers itself"
		if fsys.CodeOf(err) != fsys.Unavailable || fsys.ReasonOf(err) != want || requests.Load() != 1 {
			t.Errorf("%d: got %v after %d requests, want %s", status, err, requests.Load(), want)
		}
		if used := Unanswered(t.Context(), models.Ask("m", "hi"), err); used != (models.Usage{}) {
			t.Errorf("%d: it has used %+v", status, used)
		}
	}
}
