package http

import (
	"agent9/conformance/daemon"
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// anonymous returns how many bytes of memory, other than of files, a process has.
func anonymous(t *testing.T, pid int) (n int64) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(status), "RssAnon:")
	if _, err := fmt.Sscan(rest, &n); err != nil || !ok {
		t.Fatal("no RssAnon")
	}
	return n << 10
}

// most returns the most memory that a process has while f runs.
func most(t *testing.T, pid int, f func()) int64 {
	t.Helper()
	var peak atomic.Int64
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			peak.Store(max(peak.Load(), anonymous(t, pid)))
			select {
			case <-tick.C:
			case <-stop:
				return
			}
		}
	}()
	f()
	close(stop)
	<-stopped
	return peak.Load()
}

// Backups and bundles go over HTTP in both directions at any size: what is larger
// than all that the daemon may keep, and than any request, is in files.
func TestLargeOverHTTP(t *testing.T) {
	d, _, operator := daemon.StartWeb(t, "--max-memory", "32")
	r := d.Root()
	r.Mkdir("agents", "alice")
	var content bytes.Buffer
	for i := 0; content.Len() < 36<<20; i++ {
		fmt.Fprintf(&content, "%x\n", sha256.Sum256(fmt.Append(nil, i)))
	}
	for _, name := range []string{"large", "larger"} {
		r.Make("agents/alice/state", name, content.String())
	}
	pid := d.Cmd.Process.Pid
	before := anonymous(t, pid)
	get := func(path string, w io.Writer, ranged string) {
		req, err := http.NewRequestWithContext(t.Context(), "GET", "http://localhost/"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if ranged != "" {
			req.Header.Set("Range", ranged)
		}
		res, err := operator.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		n, err := io.Copy(w, res.Body)
		if err != nil || res.StatusCode != 200 || n < 64<<20 || res.Header.Get("Accept-Ranges") != "none" {
			t.Errorf("%s: status %d, %d bytes, %v", path, res.StatusCode, n, err)
		}
	}
	var tar bytes.Buffer
	peak := most(t, pid, func() {
		get("backup", io.Discard, "")
		get("backup", io.Discard, "bytes=1000-")
		get("bundles/alice.tar", &tar, "")
	})
	if grown := peak - before; grown > 60<<20 {
		t.Errorf("reading them took %d MiB of memory", grown>>20)
	}
	send := func(method string, body io.Reader) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), method, "http://localhost/bundles/new", body)
		if err != nil {
			t.Fatal(err)
		}
		res, err := operator.Do(req)
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
	before = anonymous(t, pid)
	peak = most(t, pid, func() {
		// A byte that is wrong at the end is found when all of it is there.
		damaged := bytes.Clone(tar.Bytes())
		damaged[len(damaged)-3000] ^= 1
		status, said := send("POST", io.MultiReader(strings.NewReader(`{"name":"never","new_identity":true}`), bytes.NewReader(damaged)))
		if status != 400 || !strings.Contains(said, "damaged") {
			t.Errorf("a damaged bundle: %d %s", status, said)
		}
		status, said = send("PUT", bytes.NewReader(tar.Bytes()[:tar.Len()/2]))
		if status != 400 || !strings.Contains(said, "too early") {
			t.Errorf("half a bundle: %d %s", status, said)
		}
	})
	if grown := peak - before; grown > 60<<20 {
		t.Errorf("taking them took %d MiB of memory", grown>>20)
	}
	for name, method := range map[string]string{"bob": "POST", "carol": "PUT"} {
		wish := fmt.Sprintf(`{"name":%q,"new_identity":true}`, name)
		status, said := send(method, io.MultiReader(strings.NewReader(wish), bytes.NewReader(tar.Bytes())))
		if method == "POST" && (status != 200 || !strings.Contains(said, `"bob"`)) || method == "PUT" && status != 204 && status != 201 {
			t.Errorf("%s: %d %s", method, status, said)
		}
		if got := r.Read("agents/" + name + "/state/large"); got != content.String() {
			t.Errorf("%s has %d bytes that are others", name, len(got))
		}
	}
	if _, err := r.TryRead("agents/never/status"); err == nil {
		t.Error("a damaged bundle made an agent")
	}
}
