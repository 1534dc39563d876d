package data

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"agent9/conformance/daemon"
	"agent9/fsys"
)

// On a full disk writes are refused, reads go on, nothing is lost, and when
// there is room again all works, in the same daemon and in the next.
func TestFullDisk(t *testing.T) {
	d := daemon.New(t)
	if err := os.Mkdir(d.Data(), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", d.Data(), "tmpfs", 0, "size=8k,mode=700"); err != nil {
		t.Skipf("a full disk cannot be tried without mounting a small one: %v", err)
	}
	t.Cleanup(func() {
		d.Kill()
		if err := syscall.Unmount(d.Data(), 0); err != nil {
			t.Error(err)
		}
	})
	resize := func(size string) {
		t.Helper()
		if err := syscall.Mount("tmpfs", d.Data(), "tmpfs", syscall.MS_REMOUNT, "size="+size); err != nil {
			t.Fatal(err)
		}
	}
	d.Refuses(1, nil, d.Data(), "no space left on device")
	if names, err := os.ReadDir(d.Data()); err != nil || len(names) > 0 {
		t.Errorf("a start without space left %v, %v", names, err)
	}

	resize("2m")
	d.Start()
	r := d.Root()
	r.Mkdir("agents", "alice")
	alice := d.At("/agents/alice")
	const roomy = `"inbox":{"limit":100000}` // not what ends the filling
	alice.Write("config", "{"+roomy+"}")
	piece := strings.Repeat("0123456789abcdef", 1<<12) // 64 KiB
	written, messages := 0, 0
	fill := func() {
		t.Helper()
		for {
			err := alice.TryMake("goals", fmt.Sprintf("g%03d", written), piece)
			if err != nil {
				daemon.Refused(t, "a write on a full disk", err, fsys.NoSpace)
				break
			}
			if written++; written > 1000 {
				t.Fatal("the disk does not get full")
			}
		}
		for { // and the rest with small ones
			err := alice.TryWrite("inbox/new", "a message")
			if err != nil {
				daemon.Refused(t, "a message on a full disk", err, fsys.NoSpace)
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
			if got := alice.Read(fmt.Sprintf("goals/g%03d", i)); got != piece {
				t.Errorf("goal %d has %d bytes", i, len(got))
			}
		}
		daemon.Equal(t, "messages", len(strings.Fields(alice.List("inbox")))-len(strings.Fields(daemon.InboxFiles)), messages)
	}
	fill()
	if written < 3 {
		t.Fatalf("only %d writes went through", written)
	}
	daemon.Equal(t, "ENOSPC", fsys.NoSpace.Errno(), 28)
	whole()
	daemon.Has(t, "status", alice.Read("status"), `"name":"alice"`)
	alice.Read("README")
	r.Read("metrics")
	// What is small may still find a place: it is there or it was refused.
	agents, config := "alice", "{"+roomy+"}\n"
	if err := r.TryMkdir("agents", "bob"); err == nil {
		agents += " bob"
	} else {
		daemon.Refused(t, "a new agent on a full disk", err, fsys.NoSpace)
	}
	if err := alice.TryWrite("config", `{"accept":[],`+roomy+"}"); err == nil {
		config = `{"accept":[],` + roomy + "}\n"
	} else {
		daemon.Refused(t, "config on a full disk", err, fsys.NoSpace)
	}
	daemon.Equal(t, "agents", r.List("agents"), agents)
	daemon.Equal(t, "config", alice.Read("config"), config)

	// A message can be read; it stays if its end cannot be recorded.
	if messages > 0 {
		_, err := alice.TryRead("inbox/next")
		if err != nil {
			daemon.Refused(t, "taking a message on a full disk", err, fsys.NoSpace)
		} else {
			messages--
		}
		whole()
	}

	resize("4m")
	alice.Make("goals", "room", "again")
	daemon.Equal(t, "a goal", alice.Read("goals/room"), "again")
	fill()
	whole()

	// A restart on a full disk reads all there is.
	d.Kill()
	d.Start()
	alice = d.At("/agents/alice")
	whole()
	fill()
	resize("8m")
	alice.Make("goals", "room", "after a restart")
	daemon.Equal(t, "a goal", alice.Read("goals/room"), "after a restart")
	alice.Write("inbox/new", "one more")
	messages++
	d.Signal(syscall.SIGTERM)
	d.Ends(daemon.Bound)
	d.Start()
	r, alice = d.Root(), d.At("/agents/alice")
	whole()
	daemon.Has(t, "logs/recent", alice.Read("logs/recent"), "inbox.received")
	daemon.Equal(t, "config", alice.Read("config"), config)
	r.Mkdir("agents", "carol")
	daemon.Equal(t, "agents", r.List("agents"), agents+" carol")
}
