package sandboxes

import (
	"sync"
	"testing"

	"agent9/conformance/daemon"
	"agent9/fsys"
)

// Who waits for more of a stream costs the daemon no goroutine, whatever lies
// between the stream and the wire; and all of them hear of what comes.
func TestReadersWaitWithoutGoroutines(t *testing.T) {
	const readers = 300
	d := daemon.Start(t)
	r := d.Root()
	r.Mkdir("agents", "alice")
	alice := d.At("/agents/alice")
	alice.Ask("sessions/new", "talk")
	goroutines, requests := r.Metric("go_goroutines"), r.Metric("agent9_9p_requests")
	var waiting sync.WaitGroup
	for _, file := range []string{"logs/trajectory", "sessions/1/transcript"} { // through a mount, and kept by its reader
		at := int64(len(alice.Tail(file)))
		for range readers / 2 {
			h := alice.Open(file, fsys.Read)
			waiting.Go(func() {
				if n, err := fsys.ReadAt(daemon.Within(t), h, make([]byte, 100), at); n == 0 || err != nil {
					t.Errorf("a reader of %s got %d bytes: %v", file, n, err)
				}
			})
		}
	}
	daemon.Eventually(t, "they wait", func() bool { return r.Metric("agent9_9p_requests") >= requests+readers })
	daemon.Eventually(t, "there are no more goroutines than for a few", func() bool {
		return r.Metric("go_goroutines") < goroutines+readers/10
	})
	alice.Write("logs/write", "something")
	alice.Write("sessions/1/ctl", "pause")
	waiting.Wait()
}
