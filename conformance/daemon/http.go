package daemon

import (
	"context"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var HttpAt = regexp.MustCompile(`listening on http tcp:(\S+)`)

// StartWeb returns a daemon that serves HTTP, its URL, and its operator over
// the Unix socket.
func StartWeb(t testing.TB, args ...string) (d *Daemon, url string, operator *http.Client) {
	t.Helper()
	tt, ok := t.(*testing.T)
	if !ok {
		t.Skip("needs a test")
	}
	d = New(tt)
	socket := filepath.Join(d.Dir, "http")
	d.Args = append(args, "--http", "127.0.0.1:0", "--http", "unix:"+socket)
	d.Start()
	operator = &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var dialer net.Dialer
		return dialer.DialContext(ctx, "unix", socket)
	}}}
	t.Cleanup(operator.CloseIdleConnections)
	return d, "http://" + HttpAt.FindStringSubmatch(d.Text())[1], operator
}

// Ask sends a request and returns the status and the answer.
func Ask(t testing.TB, c *http.Client, token, method, url, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

// TokenFor makes a token, with the words after token of the host's ctl.
func TokenFor(t testing.TB, operator *http.Client, words string) string {
	t.Helper()
	status, reply := Ask(t, operator, "", "POST", "http://localhost/ctl", "token "+words)
	if status != 200 {
		t.Fatalf("token %s: %d %s", words, status, reply)
	}
	return strings.TrimSpace(reply)
}

func Create(t testing.TB, operator *http.Client, names ...string) {
	t.Helper()
	for _, name := range names {
		if status, text := Ask(t, operator, "", "MKCOL", "http://localhost/agents/"+name, ""); status != 201 {
			t.Fatalf("%d %s", status, text)
		}
	}
}
