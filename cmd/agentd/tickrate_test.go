package main

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

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
	d := startDaemon(t)
	for _, agents := range []int{1, 50} {
		var all sync.WaitGroup
		each := func(f func(r *tree, name string)) {
			for i := range agents {
				r := d.root()
				all.Go(func() { f(r, fmt.Sprintf("of%d-%d", agents, i)) })
			}
			all.Wait()
		}
		each(func(r *tree, name string) {
			r.agent(name, `{"program":{"go":"echo"}}`)
			r.write("agents/"+name+"/ctl", "stop")
			for range many / agents {
				r.write("agents/"+name+"/inbox/new", "x")
			}
		})
		fsync := d.fsyncMedian()
		began := time.Now()
		each(func(r *tree, name string) {
			trace := r.open("agents/"+name+"/logs/trace", fsys.Read)
			defer trace.Close()
			r.write("agents/"+name+"/ctl", "start")
			r.eventTimes(trace, "tick.ended", many/agents)
		})
		took := time.Since(began)
		each(func(r *tree, name string) {
			equal(t, name+" has echoed", r.read("agents/"+name+"/state/echoed"), fmt.Sprintln(many/agents))
		})
		rate := float64(many) / took.Seconds()
		t.Logf("%d agents: %.0f ticks a second, %.2f times the rate of single fsyncs, which took %v", agents, rate, rate*fsync.Seconds(), fsync)
	}
}

// eventTimes waits until the event was recorded n times since trace was opened,
// and asks for nothing meanwhile.
func (tr *tree) eventTimes(trace fsys.Handle, event string, n int) {
	tr.t.Helper()
	want := []byte(`"event":"` + event + `"`)
	var rest []byte // of a line
	b := make([]byte, 1<<16)
	for off := int64(0); n > 0; {
		m, err := fsys.ReadAt(within(tr.t), trace, b, off)
		if err != nil {
			tr.t.Fatalf("%s: %v; %d are missing", event, err, n)
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
func (d *daemon) fsyncMedian() time.Duration {
	f, err := os.CreateTemp(d.dir, "fsync")
	if err != nil {
		d.t.Fatal(err)
	}
	defer f.Close()
	took := make([]time.Duration, 51)
	for i := range took {
		took[i] = fsyncTime(d.t, f)
	}
	slices.Sort(took)
	return took[len(took)/2]
}
