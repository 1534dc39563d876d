package main

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"agent9/conformance/daemon"
	"agent9/fsys"
)

// All messages that wait are ticked, of one agent and of fifty at once, and
// the figures say at what rate, as a multiple of that of single fsyncs on the
// same disk. The program is the smallest there is, so that the figure is that
// of the ticks themselves: their beginnings and ends are on the disk.
func TestTicksPerSecond(t *testing.T) {
	many := 100
	if os.Getenv(scaleVar) != "" {
		many = 1000 // an inbox has room for 1,024
	}
	d := daemon.Start(t)
	for _, agents := range []int{1, 50} {
		var all sync.WaitGroup
		each := func(f func(r *daemon.Tree, name string)) {
			for i := range agents {
				r := d.Root()
				all.Go(func() { f(r, fmt.Sprintf("of%d-%d", agents, i)) })
			}
			all.Wait()
		}
		each(func(r *daemon.Tree, name string) {
			r.Agent(name, `{"program":{"go":"echo"}}`)
			r.Write("agents/"+name+"/ctl", "stop")
			for range many / agents {
				r.Write("agents/"+name+"/inbox/new", "x")
			}
		})
		fsync := fsyncMedian(d)
		began := time.Now()
		each(func(r *daemon.Tree, name string) {
			trace := r.Open("agents/"+name+"/logs/trace", fsys.Read)
			defer trace.Close()
			r.Write("agents/"+name+"/ctl", "start")
			eventTimes(r, trace, "tick.ended", many/agents)
		})
		took := time.Since(began)
		each(func(r *daemon.Tree, name string) {
			daemon.Equal(t, name+" has echoed", r.Read("agents/"+name+"/state/echoed"), fmt.Sprintln(many/agents))
		})
		rate := float64(many) / took.Seconds()
		t.Logf("%d agents: %.0f ticks a second, %.2f times the rate of single fsyncs, which took %v", agents, rate, rate*fsync.Seconds(), fsync)
	}
}

// eventTimes waits until the event was recorded n times since trace was opened,
// and asks for nothing meanwhile.
func eventTimes(tr *daemon.Tree, trace fsys.Handle, event string, n int) {
	tr.T.Helper()
	want := []byte(`"event":"` + event + `"`)
	var rest []byte // of a line
	b := make([]byte, 1<<16)
	for off := int64(0); n > 0; {
		m, err := fsys.ReadAt(daemon.Within(tr.T), trace, b, off)
		if err != nil {
			tr.T.Fatalf("%s: %v; %d are missing", event, err, n)
		}
		off += int64(m)
		rest = append(rest, b[:m]...)
		whole := bytes.LastIndexByte(rest, '\n') + 1
		n -= bytes.Count(rest[:whole], want)
		rest = rest[whole:]
	}
}

// fsyncMedian is the median of what it takes to write a page to the disk that
// the data is on.
func fsyncMedian(d *daemon.Daemon) time.Duration {
	f, err := os.CreateTemp(d.Dir, "fsync")
	if err != nil {
		d.T.Fatal(err)
	}
	defer f.Close()
	took := make([]time.Duration, 51)
	for i := range took {
		took[i] = fsyncTime(d.T, f)
	}
	slices.Sort(took)
	return took[len(took)/2]
}
