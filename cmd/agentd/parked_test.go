package main

import (
	"sync"
	"testing"

	"agent9/fsys"
)

// Who waits for more of a stream costs the daemon no goroutine, whatever lies
// between the stream and the wire; and all of them hear of what comes.
func TestReadersWaitWithoutGoroutines(t *testing.T) {
	const readers = 300
	d := startDaemon(t)
	r := d.root()
	r.mkdir("agents", "alice")
	alice := d.at("/agents/alice")
	alice.ask("sessions/new", "talk")
	goroutines, requests := r.metric("go_goroutines"), r.metric("agent9_9p_requests")
	var waiting sync.WaitGroup
	for _, file := range []string{"logs/trajectory", "sessions/1/transcript"} { // through a mount, and kept by its reader
		at := int64(len(alice.tail(file)))
		for range readers / 2 {
			h := alice.open(file, fsys.Read)
			waiting.Go(func() {
				if n, err := fsys.ReadAt(within(t), h, make([]byte, 100), at); n == 0 || err != nil {
					t.Errorf("a reader of %s got %d bytes: %v", file, n, err)
				}
			})
		}
	}
	eventually(t, "they wait", func() bool { return r.metric("agent9_9p_requests") >= requests+readers })
	eventually(t, "there are no more goroutines than for a few", func() bool {
		return r.metric("go_goroutines") < goroutines+readers/10
	})
	alice.write("logs/write", "something")
	alice.write("sessions/1/ctl", "pause")
	waiting.Wait()
}
