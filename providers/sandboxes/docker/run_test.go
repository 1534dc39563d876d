//go:build unix

package docker_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"agent9/conformance/engine"
	"agent9/fsys"
	"agent9/providers/sandboxes"
)

// TestEngineCrashes kills the engine while a command runs. The container
// survives that; the sandbox is found again and removed when there is an
// engine again.
func TestEngineCrashes(t *testing.T) {
	t.Parallel()
	b := on(t, engine.Start(t))
	s := b.create(sandboxes.Spec{})
	conn, err := s.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	b.engine.Crash(t)
	conn.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := conn.Read(make([]byte, 1)); fsys.CodeOf(err) != fsys.Unavailable || !strings.Contains(fsys.ReasonOf(err), "container engine") {
		t.Errorf("a read after the crash: %v", err)
	}
	if _, err := b.Create(t.Context(), sandboxes.Spec{}, silent); fsys.CodeOf(err) != fsys.Unavailable {
		t.Errorf("Create after the crash: %v", err)
	}
	if err := s.Stop(t.Context()); fsys.CodeOf(err) != fsys.Unavailable {
		t.Errorf("Stop after the crash: %v", err)
	}
	b.engine.Restart(t)
	found, err := b.another().List(t.Context())
	if err != nil || len(found) != 1 || found[0].ID != s.ID() {
		t.Errorf("List after the restart: %+v, %v", found, err)
	}
	box := b.start(s.ID())
	if out, _ := b.sh(box, "echo again"); out != "again" {
		t.Errorf("a command after the restart: %q", out)
	}
}

// TestDaemonDies closes the connection as the end of this program would.
func TestDaemonDies(t *testing.T) {
	t.Parallel()
	b := on(t, shared.Get(t))
	s := b.create(sandboxes.Spec{})
	conn, err := s.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	ended, failed := b.engine.API.ContainerWait(t.Context(), s.ID(), container.WaitConditionNotRunning)
	select {
	case <-ended:
	case err := <-failed:
		t.Fatal(err)
	case <-time.After(time.Minute):
		t.Fatal("the sandbox outlives the connection to it")
	}
}

// TestHalfClose ends the box in order.
func TestHalfClose(t *testing.T) {
	t.Parallel()
	b := on(t, shared.Get(t))
	conn, err := b.create(sandboxes.Spec{}).Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the end of the box: %v", err)
	}
	if _, err := conn.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the second time: %v", err)
	}
	conn.Close()
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// TestKilled ends a run from outside; who reads is told how.
func TestKilled(t *testing.T) {
	t.Parallel()
	b := on(t, shared.Get(t))
	s := b.create(sandboxes.Spec{})
	conn, err := s.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := s.Start(t.Context()); fsys.CodeOf(err) != fsys.Busy {
		t.Errorf("a second Start: %v", err)
	}
	if err := b.engine.API.ContainerKill(t.Context(), s.ID(), "KILL"); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); fsys.CodeOf(err) != fsys.Unavailable || !strings.Contains(fsys.ReasonOf(err), "exit code 137") {
		t.Errorf("a read after the kill: %v", err)
	}
}

// TestDeadline interrupts a read and goes on.
func TestDeadline(t *testing.T) {
	t.Parallel()
	b := on(t, shared.Get(t))
	conn, err := b.create(sandboxes.Spec{}).Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetReadDeadline(time.Now())
	var timeout net.Error
	if _, err := conn.Read(make([]byte, 1)); !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("a read after its deadline: %v", err)
	}
	conn.SetReadDeadline(time.Time{})
	if _, err := conn.Write([]byte("\x13\x00\x00\x00\x64\xff\xff\x00\x20\x00\x00\x06\x009P2000")); err != nil { // Tversion
		t.Fatal(err)
	}
	reply := make([]byte, 7)
	if _, err := io.ReadFull(conn, reply); err != nil || reply[4] != 101 {
		t.Errorf("the answer: %v, %v", reply, err)
	}
}

// TestBadHelper starts something that is no box: who reads is told what it said.
func TestBadHelper(t *testing.T) {
	t.Parallel()
	b := on(t, shared.Get(t))
	path := filepath.Join(t.TempDir(), "a9")
	if err := os.WriteFile(path, []byte("#!/bin/sh\necho >&2 not me\nexit 3\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	b.config.Helper = func(string) (sandboxes.Helper, error) { return sandboxes.Helper{Path: path, Hash: "x"}, nil }
	s, err := b.another().Create(t.Context(), sandboxes.Spec{}, silent)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := s.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Read(make([]byte, 1)); fsys.ReasonOf(err) != "the sandbox ended with exit code 3: not me" {
		t.Errorf("a read: %v", err)
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	b := on(t, shared.Get(t))
	s := b.create(sandboxes.Spec{Limits: sandboxes.Limits{Memory: 64 << 20}})
	if u, err := s.Usage(t.Context()); err != nil || u != (sandboxes.Usage{}) {
		t.Errorf("before the first run: %+v, %v", u, err)
	}
	var before sandboxes.Usage
	for range 2 {
		box := b.start(s.ID())
		b.sh(box, "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done")
		u, err := s.Usage(t.Context())
		if err != nil || u.CPU <= before.CPU || u.Wall <= before.Wall || u.Memory < 1<<20 || u.OOMKills != before.OOMKills {
			t.Errorf("while it runs: %+v, %v, before %+v", u, err, before)
		}
		b.sh(box, "x=a; while :; do x=$x$x; done")
		if err := box.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		after, err := s.Usage(t.Context())
		for late := time.Now().Add(time.Minute); err == nil && after.OOMKills == u.OOMKills && time.Now().Before(late); {
			after, err = s.Usage(t.Context()) // the engine tells of them a little later
		}
		if err != nil || after.CPU < u.CPU || after.Wall <= u.Wall || after.OOMKills != u.OOMKills+1 {
			t.Errorf("when it has ended: %+v, %v, before %+v", after, err, u)
		}
		if again, err := s.Usage(t.Context()); again != after || err != nil {
			t.Errorf("and later: %+v, %v", again, err)
		}
		before = after
	}
	opened, err := b.another().Open(t.Context(), s.ID())
	if err != nil {
		t.Fatal(err)
	}
	if u, err := opened.Usage(t.Context()); err != nil || u.Wall <= 0 || u.Wall >= before.Wall {
		t.Errorf("of the last run, after a restart: %+v, %v", u, err)
	}
}

// TestOOM ends many commands for want of memory, and each is told so.
func TestOOM(t *testing.T) {
	t.Parallel()
	b := on(t, shared.Get(t))
	box := b.box(sandboxes.Spec{Limits: sandboxes.Limits{Memory: 24 << 20, PIDs: 64}})
	for i := range 10 {
		if _, exit := b.sh(box, "x=a; while :; do x=$x$x; done"); exit.Code != 137 || exit.Reason != sandboxes.ReasonOOM {
			t.Errorf("%d: %+v", i, exit)
		}
	}
	if out, _ := b.sh(box, "echo alive"); out != "alive" {
		t.Errorf("afterwards: %q", out)
	}
}

func TestForkBomb(t *testing.T) {
	t.Parallel()
	b := on(t, shared.Get(t))
	box := b.box(sandboxes.Spec{Limits: sandboxes.Limits{Memory: 64 << 20, PIDs: 8}})
	out, _ := b.sh(box, "f() { f | f & }; f; wait; for i in 1 2 3 4 5 6 7 8; do sh -c 'sleep 60' & done; echo")
	if !strings.Contains(out, "can't fork") {
		t.Errorf("the bomb says %q", out)
	}
	began := time.Now()
	if err := box.Stop(context.Background()); err != nil || time.Since(began) > 10*time.Second {
		t.Errorf("Stop: %v after %v", err, time.Since(began))
	}
}
