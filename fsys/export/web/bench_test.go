package web_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"agent9/fsys"
)

// status is as long as an agent's.
var status = `{"name":"alice","state":"active","pubkey":"` + strings.Repeat("0", 64) + `",` + strings.Repeat(" ", 180) + "}\n"

// BenchmarkGet compares GET of a snapshot with net/http serving the same bytes.
func BenchmarkGet(b *testing.B) {
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, status) })}
	go server.Serve(plain)
	defer server.Close()
	for name, url := range map[string]string{
		"web":      serveTree(b, fsys.NewTable(fsys.Entry{Name: "status", Node: fsys.Const(status)})),
		"net-http": "http://" + plain.Addr().String(),
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				res, body := do(b, request(b, "GET", url+"/status", ""))
				if res.StatusCode != 200 || body != status {
					b.Fatal(res.StatusCode, body)
				}
			}
		})
	}
}

// BenchmarkFanOut sends one event to a thousand clients, and ends when the
// last has it.
func BenchmarkFanOut(b *testing.B) {
	const clients = 1000
	var log fsys.Memory
	tape := fsys.NewTape(&log)
	url := serveTree(b, fsys.NewTable(fsys.Entry{Name: "log", Node: tape}))
	came := make(chan error, 2*clients)
	for range clients {
		conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		if err != nil {
			b.Skip(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "GET /log?watch=1 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n", token)
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			b.Fatal(err)
		}
		go func() { // until the connection is closed
			events := bufio.NewReader(res.Body)
			for {
				_, err := nextEvent(events)
				if came <- err; err != nil {
					return
				}
			}
		}()
	}
	for b.Loop() {
		log.Append([]byte(`{"event":"something happened"}` + "\n"))
		tape.Grown()
		for range clients {
			if err := <-came; err != nil {
				b.Fatal(err)
			}
		}
	}
}
