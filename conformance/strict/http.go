package strict

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// patience is how long an answer may take.
const patience = 20 * time.Second

// HTTP sends a request to addr exactly as it is given, on a connection of its
// own, and returns the answer with its body; nil if there was none but the end
// of the connection. The server must neither fail nor be silent. Streams are
// not for it.
func HTTP(t testing.TB, addr, method, target string, headers []string, body []byte) (*http.Response, []byte) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	what := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %d\r\n%s\r\n",
		method, target, len(body), strings.Join(append(headers, ""), "\r\n"))
	go func() { // ends with the connection
		io.WriteString(c, what)
		c.Write(body)
	}()
	r, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method})
	if err != nil {
		silent(t, what, err)
		return nil, nil
	}
	defer r.Body.Close()
	got, err := io.ReadAll(r.Body)
	if err != nil {
		silent(t, what, err)
	}
	if r.StatusCode >= 500 && r.StatusCode != http.StatusNotImplemented && r.StatusCode != http.StatusHTTPVersionNotSupported {
		t.Fatalf("%s%q is answered with %s: %q", what, body, r.Status, got)
	}
	return r, got
}

func silent(t testing.TB, what string, err error) {
	t.Helper()
	var ne net.Error
	if errors.As(err, &ne) && ne.Timeout() {
		t.Fatalf("%s has no answer", what)
	}
}
