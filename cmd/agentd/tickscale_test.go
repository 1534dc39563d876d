package main

import (
	"agent9/conformance/daemon"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// scaleVar says for how many agents TestManyAgents is run.
const scaleVar = "AGENT9_SCALE"

// Many agents cost a daemon that starts nothing but their lines in the index,
// and those that have something to do are found among them.
func TestManyAgents(t *testing.T) {
	many := 300
	if n, err := strconv.Atoi(os.Getenv(scaleVar)); err == nil {
		many = n
	}
	const busy = 50
	d := daemon.Start(t)
	var all sync.WaitGroup
	const makers = 16
	for w := range makers {
		r := d.Root()
		all.Go(func() {
			for i := w; i < many; i += makers {
				name := fmt.Sprint("agent", i)
				if err := r.TryMkdir("agents", name); err != nil {
					t.Errorf("%s: %v", name, err)
					return
				}
				if err := r.TryWrite("agents/"+name+"/config", `{"program":{"go":"echo"}}`); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				if i%10 == 0 {
					if err := r.TryWrite("agents/"+name+"/ctl", "alarm +24h"); err != nil {
						t.Errorf("%s: %v", name, err)
					}
				}
			}
		})
	}
	all.Wait()
	d.Kill()
	began := time.Now()
	d.Start()
	started := time.Since(began)
	r := d.Root()
	if n := r.Metric("agent9_agents_in_memory"); n != 0 {
		t.Errorf("%d agents are in memory after the start", n)
	}
	var rss float64
	for line := range strings.Lines(r.Read("metrics")) {
		if v, ok := strings.CutPrefix(line, "process_resident_memory_bytes "); ok {
			rss, _ = strconv.ParseFloat(strings.TrimSpace(v), 64)
		}
	}
	began = time.Now()
	for w := range busy {
		r := d.Root()
		all.Go(func() {
			name := fmt.Sprint("agent", w*many/busy)
			r.Write("agents/"+name+"/inbox/new", "x")
			r.Until(name, "logs/ticks", "done")
		})
	}
	all.Wait()
	t.Logf("%d agents: start %v, %d MiB; %d ticks at once in %v", many, started.Round(time.Millisecond), int(rss)>>20, busy, time.Since(began).Round(time.Millisecond))
}

// A message is followed by the start of the agent's program, and the figures
// say how soon: from before the message is written to the first that a shell
// does; with an agent in memory, and with one that hibernates in a daemon that
// was just started.
func TestMessageToProgram(t *testing.T) {
	rounds := 20
	if os.Getenv(scaleVar) != "" {
		rounds = 500
	}
	d := daemon.Start(t)
	fifo := filepath.Join(d.Dir, "began")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Skip("no named pipes here: ", err)
	}
	f, err := os.OpenFile(fifo, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := d.Root()
	r.Agent("alice", fmt.Sprintf(`{"program":{"exec":%q}}`, "echo >"+fifo))
	once := func(r *daemon.Tree) time.Duration {
		began := time.Now()
		r.Write("agents/alice/inbox/new", "x")
		if _, err := f.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		took := time.Since(began)
		r.UntilThat("alice", func() (string, bool) {
			s := r.Read("agents/alice/status")
			return s, strings.Contains(s, `"inbox":0`)
		}, "the tick has ended")
		return took
	}
	var warm, shell []time.Duration
	for range rounds {
		warm = append(warm, once(r))
		began := time.Now()
		alone := exec.Command("/bin/sh", "-c", "echo >"+fifo)
		if err := alone.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		shell = append(shell, time.Since(began))
		alone.Wait()
	}
	d.Kill()
	d.Start()
	cold := once(d.Root())
	slices.Sort(warm)
	slices.Sort(shell)
	t.Logf("message written to program started: median %v, p99 %v; woken first after a start of the daemon %v; a shell alone %v",
		warm[len(warm)/2], warm[len(warm)*99/100], cold, shell[len(shell)/2])
}
