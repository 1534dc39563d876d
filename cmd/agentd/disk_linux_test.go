package main

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"agent9/fsys"
)

// On a full disk writes are refused, reads go on, nothing is lost, and when
// there is room again all works, in the same daemon and in the next.
func TestFullDisk(t *testing.T) {
	d := newDaemon(t)
	if err := os.Mkdir(d.data(), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", d.data(), "tmpfs", 0, "size=8k,mode=700"); err != nil {
		t.Skipf("a full disk cannot be tried without mounting a small one: %v", err)
	}
	t.Cleanup(func() {
		d.kill()
		if err := syscall.Unmount(d.data(), 0); err != nil {
			t.Error(err)
		}
	})
	resize := func(size string) {
		t.Helper()
		if err := syscall.Mount("tmpfs", d.data(), "tmpfs", syscall.MS_REMOUNT, "size="+size); err != nil {
			t.Fatal(err)
		}
	}
	d.refuses(1, nil, d.data(), "no space left on device")
	if names, err := os.ReadDir(d.data()); err != nil || len(names) > 0 {
		t.Errorf("a start without space left %v, %v", names, err)
	}

	resize("2m")
	d.start()
	r := d.root()
	r.mkdir("agents", "alice")
	alice := d.at("/agents/alice")
	const roomy = `"inbox":{"limit":100000}` // not what ends the filling
	alice.write("config", "{"+roomy+"}")
	piece := strings.Repeat("0123456789abcdef", 1<<12) // 64 KiB
	written, messages := 0, 0
	fill := func() {
		t.Helper()
		for {
			err := alice.tryMake("goals", fmt.Sprintf("g%03d", written), piece)
			if err != nil {
				refused(t, "a write on a full disk", err, fsys.NoSpace)
				break
			}
			if written++; written > 1000 {
				t.Fatal("the disk does not get full")
			}
		}
		for { // and the rest with small ones
			err := alice.tryWrite("inbox/new", "a message")
			if err != nil {
				refused(t, "a message on a full disk", err, fsys.NoSpace)
				break
			}
			if messages++; messages > 10000 {
				t.Fatal("the disk does not get full")
			}
		}
	}
	whole := func() {
		t.Helper()
		for i := range written {
			if got := alice.read(fmt.Sprintf("goals/g%03d", i)); got != piece {
				t.Errorf("goal %d has %d bytes", i, len(got))
			}
		}
		equal(t, "messages", len(strings.Fields(alice.list("inbox")))-len(strings.Fields(inboxFiles)), messages)
	}
	fill()
	if written < 3 {
		t.Fatalf("only %d writes went through", written)
	}
	equal(t, "ENOSPC", fsys.NoSpace.Errno(), 28)
	whole()
	has(t, "status", alice.read("status"), `"name":"alice"`)
	alice.read("README")
	r.read("metrics")
	// What is small may still find a place: it is there or it was refused.
	agents, config := "alice", "{"+roomy+"}\n"
	if err := r.tryMkdir("agents", "bob"); err == nil {
		agents += " bob"
	} else {
		refused(t, "a new agent on a full disk", err, fsys.NoSpace)
	}
	if err := alice.tryWrite("config", `{"accept":[],`+roomy+"}"); err == nil {
		config = `{"accept":[],` + roomy + "}\n"
	} else {
		refused(t, "config on a full disk", err, fsys.NoSpace)
	}
	equal(t, "agents", r.list("agents"), agents)
	equal(t, "config", alice.read("config"), config)

	// A message can be read; it stays if its end cannot be recorded.
	if messages > 0 {
		_, err := alice.tryRead("inbox/next")
		if err != nil {
			refused(t, "taking a message on a full disk", err, fsys.NoSpace)
		} else {
			messages--
		}
		whole()
	}

	resize("4m")
	alice.make("goals", "room", "again")
	equal(t, "a goal", alice.read("goals/room"), "again")
	fill()
	whole()

	// A restart on a full disk reads all there is.
	d.kill()
	d.start()
	alice = d.at("/agents/alice")
	whole()
	fill()
	resize("8m")
	alice.make("goals", "room", "after a restart")
	equal(t, "a goal", alice.read("goals/room"), "after a restart")
	alice.write("inbox/new", "one more")
	messages++
	d.signal(syscall.SIGTERM)
	d.ends(bound)
	d.start()
	r, alice = d.root(), d.at("/agents/alice")
	whole()
	has(t, "logs/recent", alice.read("logs/recent"), "inbox.received")
	equal(t, "config", alice.read("config"), config)
	r.mkdir("agents", "carol")
	equal(t, "agents", r.list("agents"), agents+" carol")
}
