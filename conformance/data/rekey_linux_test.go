package data

import (
	"agent9/conformance/daemon"
	"encoding/binary"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Whenever a rotation is killed, the next start has the right key.
func TestRekeyKilled(t *testing.T) {
	d := daemon.Start(t)
	furnish(t, d)
	d.Kill()
	// One that nobody kills says how much there is to be seen of it.
	all := rekeyUntil(t, d.Data(), -1)
	if all < 5 {
		t.Fatalf("rekey does %d things in the directory", all)
	}
	const rounds = 25
	for round := range rounds {
		rekeyUntil(t, d.Data(), round*all/rounds)
		if status, out := d.Offline(nil, "fsck", d.Data()); status != 0 || strings.Contains(out, "not checked") {
			t.Fatalf("round %d: fsck ended with status %d, and said:\n%s", round, status, out)
		}
	}
	d.Start()
	d.Root().Ask("agents/alice/identity/sign", "x")
}

// rekeyUntil runs agentd rekey on the directory data, and kills it when more
// things than most have happened there, unless most is negative. It returns how many
// did.
func rekeyUntil(t *testing.T, data string, most int) (happened int) {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	events := os.NewFile(uintptr(fd), "inotify")
	defer events.Close()
	if _, err := unix.InotifyAddWatch(fd, data, unix.IN_CREATE|unix.IN_MODIFY|unix.IN_CLOSE_WRITE|unix.IN_MOVE|unix.IN_DELETE); err != nil {
		t.Fatal(err)
	}
	cmd := daemon.Agentd(t, "rekey", data)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	gone := make(chan struct{})
	go func() { // until it has ended
		cmd.Wait()
		close(gone)
		events.SetReadDeadline(time.Now())
	}()
	late := time.AfterFunc(daemon.Limit, func() { cmd.Process.Kill() })
	defer late.Stop()
	buf := make([]byte, 64<<10)
	read := events.Read
	for {
		n, err := read(buf)
		for b := buf[:max(n, 0)]; len(b) >= unix.SizeofInotifyEvent; {
			happened++
			b = b[unix.SizeofInotifyEvent+binary.NativeEndian.Uint32(b[12:]):]
		}
		switch {
		case err == unix.EAGAIN:
			return happened
		case err != nil: // it has ended: what it did last
			<-gone
			read = func(p []byte) (int, error) { return unix.Read(fd, p) }
		case most >= 0 && happened > most:
			cmd.Process.Kill()
		}
	}
}
