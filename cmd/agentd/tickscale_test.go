package main

import (
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
	d := startDaemon(t)
	var all sync.WaitGroup
	const makers = 16
	for w := range makers {
		r := d.root()
		all.Go(func() {
			for i := w; i < many; i += makers {
				name := fmt.Sprint("agent", i)
				if err := r.tryMkdir("agents", name); err != nil {
					t.Errorf("%s: %v", name, err)
					return
				}
				if err := r.tryWrite("agents/"+name+"/config", `{"program":{"go":"echo"}}`); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				if i%10 == 0 {
					if err := r.tryWrite("agents/"+name+"/ctl", "alarm +24h"); err != nil {
						t.Errorf("%s: %v", name, err)
					}
				}
			}
		})
	}
	all.Wait()
	d.kill()
	began := time.Now()
	d.start()
	started := time.Since(began)
	r := d.root()
	if n := r.metric("agent9_agents_in_memory"); n != 0 {
		t.Errorf("%d agents are in memory after the start", n)
	}
	var rss float64
	for line := range strings.Lines(r.read("metrics")) {
		if v, ok := strings.CutPrefix(line, "process_resident_memory_bytes "); ok {
			rss, _ = strconv.ParseFloat(strings.TrimSpace(v), 64)
		}
	}
	began = time.Now()
	for w := range busy {
		r := d.root()
		all.Go(func() {
			name := fmt.Sprint("agent", w*many/busy)
			r.write("agents/"+name+"/inbox/new", "x")
			r.until(name, "logs/ticks", "done")
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
	d := startDaemon(t)
	fifo := filepath.Join(d.dir, "began")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Skip("no named pipes here: ", err)
	}
	f, err := os.OpenFile(fifo, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := d.root()
	r.agent("alice", fmt.Sprintf(`{"program":{"exec":%q}}`, "echo >"+fifo))
	once := func(r *tree) time.Duration {
		began := time.Now()
		r.write("agents/alice/inbox/new", "x")
		if _, err := f.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		took := time.Since(began)
		r.untilThat("alice", func() (string, bool) {
			s := r.read("agents/alice/status")
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
	d.kill()
	d.start()
	cold := once(d.root())
	slices.Sort(warm)
	slices.Sort(shell)
	t.Logf("message written to program started: median %v, p99 %v; woken first after a start of the daemon %v; a shell alone %v",
		warm[len(warm)/2], warm[len(warm)*99/100], cold, shell[len(shell)/2])
}
